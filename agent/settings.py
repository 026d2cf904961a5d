"""One validated tree of settings: defaults, then a TOML file, then TURNSCOPE_* environment variables, then flags."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from agent.errors import TurnscopeError
from agent.settings_errors import invalid, section_of

EngineSet = Literal["auto", "cpu", "gpu"]
AsrMode = Literal["cache-aware", "buffered"]
EndpointMode = Literal["hangover", "smart-turn", "hangover+smart-turn"]
DEFAULT_HANGOVER_S: Mapping[EndpointMode, float] = {"hangover": 0.5, "smart-turn": 0.064, "hangover+smart-turn": 0.2}
BACKCHANNELS = (
    *("yeah", "yep", "yes", "ok", "okay", "right", "sure", "i see", "got it"),
    *("uh-huh", "mm-hm", "mm-hmm", "mhm", "mm", "hm", "hmm", "ah", "aha", "oh", "uh", "um"),
)

PREFIX, DEBUG = "TURNSCOPE_", "TURNSCOPE_DEBUG"
Seconds = Annotated[float, Field(ge=0, le=10)]
Probability = Annotated[float, Field(ge=0, le=1)]
Odds = Annotated[float, Field(ge=1, le=1000)]
Limit = Annotated[float, Field(ge=0.1, le=3600)]
Threads = Annotated[int, Field(ge=1, le=256)]
Thinking = Annotated[int, Field(ge=0, le=4096)] | Literal["on", "off"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EndpointSettings(_Section):
    """When a turn begins and ends."""

    mode: EndpointMode = "hangover+smart-turn"
    hangover_s: Seconds | None = Field(
        default=None,
        description="silence before the turn ends or smart-turn is asked; None: by mode",
    )
    max_hangover_s: Seconds = Field(default=1.2, description="silence that ends the turn although smart-turn said no")
    min_speech_s: Seconds = Field(default=0.096, description="speech that opens a turn")
    start_threshold: Probability = 0.5
    continue_threshold: Probability = 0.35
    smart_turn_threshold: Probability = Field(
        default=0.7, description="probability of a finished sentence from which the hangover is waited for"
    )
    unfinished_threshold: Probability = Field(
        default=0.2, description="and the one down to which the longest is; between the two it is graded"
    )
    finished_text_odds: Odds = Field(
        default=1.5, description="so much likelier a finished sentence is where the words end with . ? or !"
    )
    unfinished_text_odds: Odds = Field(
        default=20.0, description="and so much less likely after a comma, conjunction, article, preposition or filler"
    )
    smart_turn_questions: int = Field(default=3, ge=1, le=3, description="how often smart-turn is asked in one silence")

    @property
    def asks_smart_turn(self) -> bool:
        return self.mode != "hangover"

    @property
    def effective_hangover_s(self) -> float:
        return DEFAULT_HANGOVER_S[self.mode] if self.hangover_s is None else self.hangover_s

    @model_validator(mode="after")
    def _bounds_in_order(self) -> "EndpointSettings":
        if self.asks_smart_turn and self.effective_hangover_s > self.max_hangover_s:
            raise ValueError(
                f"hangover_s {self.effective_hangover_s} is longer than max_hangover_s {self.max_hangover_s}"
            )
        if self.unfinished_threshold > self.smart_turn_threshold:
            raise ValueError(
                f"unfinished_threshold {self.unfinished_threshold} is above smart_turn_threshold "
                f"{self.smart_turn_threshold}"
            )
        return self


class BargeInSettings(_Section):
    """When a sound of the user's interrupts a reply."""

    enabled: bool = Field(default=True, description="false: a reply that is being heard plays to its end")
    min_speech_s: Seconds = Field(default=0.4, description="speech that pauses a reply which is being heard")
    backchannels: tuple[str, ...] = Field(default=BACKCHANNELS, description="words that do not interrupt")
    false_after_s: Seconds = Field(default=2.0, description="a paused reply goes on after so long without more speech")


class AsrSettings(_Section):
    """Speech recognition. A model of None follows `engines`."""

    model: str | None = Field(default=None, description="a model's name, or the path of a .nemo file")
    chunk_ms: int = Field(
        default=320, description="a streaming model's chunk, or the partials' cadence; each model has its own"
    )
    language: str = Field(default="en-US", description="what is spoken: the prompt of a model of many languages")
    flush: bool = Field(
        default=True, description="at the end of speech, fill the chunk with silence: do not wait for it"
    )
    mode: AsrMode = Field(default="cache-aware", description="buffered encodes overlapping windows, for comparison")
    threads: Threads = 1


class LlmSettings(_Section):
    """The language model. A model of None follows `engines`."""

    model: str | None = Field(
        default=None, description="a model's name, the path of a GGUF file, or an OpenAI-compatible server's URL"
    )
    thinking_tokens: Thinking = Field(default=0, description="budget of unspoken tokens; `off` is 0, `on` no budget")
    max_tokens: int = Field(default=160, ge=1, le=4096, description="longest reply, in tokens")
    context_tokens: int | None = Field(
        default=None,
        ge=256,
        le=1_048_576,
        description="default: 2048, or what the model was trained on if less; for a server that does not tell, 4096",
    )
    temperature: float = Field(default=0.0, ge=0, le=5, description="0 takes the likeliest word")
    seed: int = Field(default=0, ge=0, le=2**32 - 2)
    threads: Threads | None = Field(default=None, description="for decode; default: all cores but one")
    prefill_threads: Threads | None = Field(default=None, description="default: as `threads`, without them all cores")
    gpu_layers: int | None = Field(default=None, ge=0, le=10_000, description="default: all on a GPU, none on a CPU")
    flash_attention: bool | None = Field(default=None, description="default: on a GPU and with a draft")
    batch_tokens: int | None = Field(default=None, ge=1, le=65_536, description="of one prefill call")
    micro_batch_tokens: int | None = Field(default=None, ge=1, le=65_536, description="of one pass through the graph")
    swa_full: bool = Field(
        default=True, description="keep all of a sliding-window model's cache, so that it rolls back"
    )
    draft: Path | None = Field(
        default=None,
        description="GGUF file of a smaller model or of multi-token heads, or the model itself",
    )
    draft_tokens: int = Field(default=4, ge=1, le=64, description="tokens drafted at a time")
    server_model: str | None = Field(default=None, description="which of a server's models")
    api_key: SecretStr | None = Field(default=None, description="a server's")
    system_prompt: str | None = Field(default=None, description="instead of the built-in one")

    def thinking_budget(self, context_tokens: int) -> int:
        """Unspoken tokens that a reply may begin with: `on` leaves half of the context to the conversation."""
        match self.thinking_tokens:
            case "on":
                return context_tokens // 2
            case "off":
                return 0
            case tokens:
                return tokens

    @property
    def thinks(self) -> bool:
        return self.thinking_tokens not in (0, "off")


class TtsSettings(_Section):
    """Speech synthesis. A model of None follows `engines`; what only one kind of model has says so."""

    model: str | None = Field(default=None, description="a model's name, or a folder with a VoxCPM2 checkpoint")
    threads: Threads = 1
    phonemizer: Literal["espeak", "gruut"] = Field(
        default="espeak", description="Piper; gruut needs the `permissive` extra"
    )
    diffusion_steps: int = Field(default=10, ge=2, le=100, description="VoxCPM2, per patch; one step gives noise")
    guidance: float = Field(default=2.0, ge=0, le=10, description="VoxCPM2: weight of classifier-free guidance")
    voice: str | None = Field(default=None, description="VoxCPM2: the voice described in words")
    reference_wav: Path | None = Field(default=None, description="VoxCPM2: a recording of the voice")
    prompt_wav: Path | None = Field(default=None, description="VoxCPM2: speech to go on from, with `prompt_text`")
    prompt_text: str | None = Field(default=None, description="VoxCPM2: what is said in `prompt_wav`")
    seed: int = Field(default=0, ge=0, le=2**32 - 2, description="VoxCPM2")
    max_patches: int | None = Field(default=None, ge=4, le=4096, description="VoxCPM2: the longest phrase")
    normalize: bool = Field(default=False, description="VoxCPM2: its own text normaliser, after ours")
    compiled: bool = Field(default=False, description="VoxCPM2: torch.compile, on a GPU")


class LimitSettings(_Section):
    """How long an engine may give nothing while it works, in seconds, before its turn is given up. None: 20 s, or ten
    times the longest such wait while it was warmed up, where that is more."""

    asr_s: Limit | None = Field(default=None, description="recognition: a partial or final transcript")
    smart_turn_s: Limit = Field(default=3.0, description="smart-turn; max_hangover_s ends the turn meanwhile")
    llm_s: Limit | None = Field(default=None, description="the language model: evaluating the prompt, or one token")
    tts_s: Limit | None = Field(default=None, description="the voice: set-up, or one patch")


class Settings(BaseSettings):
    """Every setting of the agent. `load` is the way to make one."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, env_prefix=PREFIX, env_nested_delimiter="__")
    engines: EngineSet = Field(default="auto", description="auto: the big models where a GPU and their files are")
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d{1,2})?)$", description="auto, cpu, cuda, cuda:N")
    language: Literal["en"] = "en"
    endpoint: EndpointSettings = EndpointSettings()
    barge_in: BargeInSettings = BargeInSettings()
    asr: AsrSettings = AsrSettings()
    llm: LlmSettings = LlmSettings()
    tts: TtsSettings = TtsSettings()
    limits: LimitSettings = LimitSettings()
    capture_content: bool = Field(default=False, description="keep transcripts and replies in traces")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings


def load(config: Path | None = None, flags: Mapping[str, Any] | None = None) -> Settings:
    """Settings from `config` (a TOML file), the environment and `flags` (a nested mapping; None values are left out).

    Raises TurnscopeError with the file's line and column, or the setting's name and what it may be.
    """
    _check_environment()
    from_file = _read(config) if config else {}

    class WithFile(Settings):
        """The same settings, with the file as the last source."""

        @classmethod
        def settings_customise_sources(cls, settings_cls: type[BaseSettings], *sources: Any, **named: Any) -> Any:
            usual = Settings.settings_customise_sources(settings_cls, *sources, **named)
            return (*usual, InitSettingsSource(settings_cls, from_file))

    given = _without_none(flags or {})
    if os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").lower() in ("true", "1", "span_only"):
        given.setdefault("capture_content", True)
    try:
        return WithFile(**given)
    except ValidationError as error:
        raise TurnscopeError(invalid(Settings, error)) from None
    except SettingsError as error:
        raise TurnscopeError(
            f"A {PREFIX}* environment variable is not valid: {str(error).split(' from ')[0]}."
        ) from None


def recorded(settings: Settings) -> dict[str, Any]:
    """For a run's folder, in JSON's types: texts that somebody wrote are left out unless content is to be kept."""
    texts: Any = {"llm": {"system_prompt"}, "tts": {"prompt_text", "voice"}}
    return settings.model_dump(mode="json", exclude=None if settings.capture_content else texts)


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            raise TurnscopeError(f"The settings file {path} is not a file: give a TOML file.")
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise TurnscopeError(f"The settings file {path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number or a nesting beyond measure
        raise TurnscopeError(f"The settings file {path} is not valid TOML: {error}.") from None


def _check_environment() -> None:
    """A misspelt variable is an error, as a misspelt key is."""
    for name in os.environ:
        if not name.upper().startswith(PREFIX) or name == DEBUG:
            continue
        section, _, rest = name.upper().removeprefix(PREFIX).lower().partition("__")
        field = Settings.model_fields.get(section)
        known = field is not None
        if field is not None and rest and (inner := section_of(field)):
            known = rest in inner.model_fields
        if not known:
            raise TurnscopeError(f"There is no setting for {name}: names are like {PREFIX}ASR__CHUNK_MS.")


def _without_none(tree: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: _without_none(value) if isinstance(value, Mapping) else value for key, value in tree.items()}
    return {key: value for key, value in kept.items() if value is not None and value != {}}
