"""What the options of `turnscope predict` describe: a machine's rates, a language model's bytes and parameters."""

from dataclasses import dataclass, fields

from agent.errors import TurnscopeError
from profiling import catalogue
from profiling.answers import Rates
from profiling.answers_llm import Load, Writing
from profiling.answers_sound import Speaking
from profiling.catalogue import LanguageModel
from profiling.formats import bits_per_weight, canonical
from profiling.predict import weight_bytes
from profiling.quantities import BANDWIDTH, MEMORY, PARAMETERS

_USUAL_FORMAT = "Q4_K_M"


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
        if self.parameters is not None and self.active is not None and self.active > self.parameters:
            raise TurnscopeError("--active parameters are some of all --parameters: they cannot be more.")
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
        """The language model without a name, and what to call it. Raises UnknownFormat; TurnscopeError where its KV
        cache is not known, or nothing of it."""
        active = self.active or self.parameters
        if self.weights is not None:
            return self._of_weights(self.weights, active)
        if active is not None:
            return self._of_parameters(active)
        raise TurnscopeError("There is no model: give --model, --parameters or --weights.")

    def _of_weights(self, weights: float, active: float | None) -> tuple[str, Writing]:
        name = f"{MEMORY.shown(weights)} of weights"
        bits = self._asked_bits or (None if active is None else 8 * weights / active)
        held = weights if self.active is None else None
        kv, dense = self._kv_bytes(name, None), self.active is None
        return name, Writing(weights, held, active, active, bits, kv, dense, loaded=True)

    def _of_parameters(self, active: float) -> tuple[str, Writing]:
        bits = self._asked_bits or bits_per_weight(_USUAL_FORMAT)
        name = f"{PARAMETERS.shown(self.parameters or active)} parameters of {bits:.3g} bits"
        held = None if self.parameters is None else weight_bytes(self.parameters, bits)
        kv, dense = self._kv_bytes(name, None), self.active is None
        return name, Writing(weight_bytes(active, bits), held, active, active, bits, kv, dense)

    def named(self, model: LanguageModel, usual_format: str | None = None) -> Writing:
        """One from the catalogue, in the format that was asked for. Raises UnknownFormat; TurnscopeError where its KV
        cache is not known."""
        kv = self._kv_bytes(model.what, model)
        if self.bits is None:
            found = Writing.of(model, self.weight_format or usual_format or model.format, kv)
        else:
            found = Writing.at(model, self.bits, kv)
        return found if self.weights is None else found.with_weights(self.weights)

    def format_of(self, model: LanguageModel) -> str:
        """Raises UnknownFormat."""
        return canonical(self.weight_format or model.format) if self.bits is None else f"{self.bits:.3g} bits"

    @property
    def _asked_bits(self) -> float | None:
        return self.bits if self.weight_format is None else bits_per_weight(self.weight_format)

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
