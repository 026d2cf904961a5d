"""What the options of `turnscope predict` describe: a machine's rates, a language model's bytes and parameters."""

from dataclasses import dataclass, fields

from agent.errors import TurnscopeError
from profiling import catalogue
from profiling.answers import Rates
from profiling.answers_llm import Load, Writing
from profiling.answers_sound import Speaking
from profiling.catalogue import LanguageModel
from profiling.formats import bits_per_weight
from profiling.predict import weight_bytes
from profiling.quantities import BANDWIDTH, MEMORY, PARAMETERS

_TABLE_FORMAT = "Q4_K_M"


@dataclass(frozen=True)
class Given:
    """The options, in base units; None where not given."""

    machine: str | None = None
    bandwidth: float | None = None
    flops: float | None = None
    model: str | None = None
    parameters: float | None = None
    active: float | None = None
    weight_format: str | None = None
    bits: float | None = None
    weights: float | None = None
    kv_per_token: float | None = None
    context: float | None = None
    prompt: float | None = None
    thinking: float | None = None
    batch: float | None = None
    speed: float | None = None
    total_speed: float | None = None
    prefill_speed: float | None = None
    chunk: float | None = None
    audio: float | None = None
    diffusion_steps: float | None = None
    fixed: float | None = None
    patch: float | None = None

    def __post_init__(self) -> None:
        if self.model is not None and (self.parameters is not None or self.active is not None):
            raise TurnscopeError(
                "--parameters and --active describe a model without a name: leave them or --model out."
            )
        if self.bits is not None and self.weight_format is not None:
            raise TurnscopeError("--bits and --format say the same thing: leave one of them out.")
        if self.kv_per_token is not None and self.context is None:
            raise TurnscopeError("--kv-per-token is the size for one token: give --context, the number of tokens, too.")
        if self.total_speed is not None and (self.batch is None or self.speed is None):
            raise TurnscopeError("--total-speed is compared with a request alone: give --batch and --speed, too.")

    def unused(self, used: tuple[str, ...]) -> list[str]:
        """Flags that were given and are none of those."""
        names = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        return [_flag(name) for name in names if name not in used]

    @property
    def rates(self) -> Rates:
        """Raises UnknownName."""
        if self.machine is None:
            return Rates(self.bandwidth, self.flops)
        machine = catalogue.machine(self.machine)
        return Rates(self.bandwidth or machine.bytes_per_s, self.flops or machine.flops_per_s)

    @property
    def place(self) -> str:
        """What to call the machine. Raises UnknownName."""
        if self.bandwidth is not None:
            return BANDWIDTH.shown(self.bandwidth)
        return "" if self.machine is None else catalogue.machine(self.machine).what

    @property
    def has_language_model(self) -> bool:
        """Whether one is named or described."""
        return any(each is not None for each in (self.model, self.parameters, self.active, self.weights))

    @property
    def load(self) -> Load:
        batch = 1 if self.batch is None else int(self.batch)
        return Load(self.prompt, self.thinking, batch, self.speed, self.total_speed, self.prefill_speed)

    @property
    def speaking(self) -> Speaking:
        steps = None if self.diffusion_steps is None else int(self.diffusion_steps)
        return Speaking(self.audio or 1.0, steps, self.fixed, self.patch)

    def described(self) -> tuple[str, Writing]:
        """The language model without a name. Raises UnknownFormat; TurnscopeError where something is missing."""
        bits = self._bits(None if self.parameters is None and self.active is None else _TABLE_FORMAT)
        active = self.active or self.parameters
        held = None if self.parameters is None or bits is None else weight_bytes(self.parameters, bits)
        weights = self.weights or (weight_bytes(active, bits) if active is not None and bits is not None else None)
        if weights is None:
            raise TurnscopeError("There is no model: give --model, or --parameters, or --weights.")
        name = MEMORY.shown(weights) if self.parameters is None else f"{PARAMETERS.shown(self.parameters)} parameters"
        return name, Writing(weights, held, active, active, bits, self._kv_bytes(name, None))

    def named(self, model: LanguageModel, usual_format: str | None = None) -> Writing:
        """One from the catalogue, in the format that was asked for. Raises UnknownFormat; TurnscopeError where its KV
        cache is not known."""
        kv = self._kv_bytes(model.what, model)
        if self.bits is None:
            found = Writing.of(model, self.weight_format or usual_format or model.format, kv)
        else:
            found = Writing.at(model, self.bits, kv)
        return found if self.weights is None else found.with_weights(self.weights)

    def _bits(self, usual_format: str | None) -> float | None:
        name = self.weight_format or usual_format
        return self.bits or (None if name is None else bits_per_weight(name))

    def _kv_bytes(self, name: str, model: LanguageModel | None) -> float:
        """Read for one token after the context."""
        if self.context is None:
            return 0.0
        if self.kv_per_token is not None:
            return self.kv_per_token * self.context
        known = None if model is None else model.kv_bytes(self.context)
        if known is None:
            raise TurnscopeError(f"The KV cache of {name} is not known: give --kv-per-token, such as 128KiB.")
        return known


def _flag(name: str) -> str:
    return "--format" if name == "weight_format" else f"--{name.replace('_', '-')}"
