"""One validated tree of settings: defaults, then a TOML file, then TURNSCOPE_* environment variables, then flags."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from agent.errors import TurnscopeError

EndpointMode = Literal["hangover", "smart-turn", "hangover+smart-turn"]
DEFAULT_HANGOVER_S: Mapping[EndpointMode, float] = {"hangover": 0.5, "smart-turn": 0.064, "hangover+smart-turn": 0.2}

PREFIX, DEBUG = "TURNSCOPE_", "TURNSCOPE_DEBUG"
Seconds = Annotated[float, Field(ge=0, le=10)]
Probability = Annotated[float, Field(ge=0, le=1)]
Threads = Annotated[int, Field(ge=1, le=256)]


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
    min_speech_s: Seconds = Field(default=0.096, description="speech that opens a turn and interrupts a reply")
    start_threshold: Probability = 0.5
    continue_threshold: Probability = 0.35
    smart_turn_threshold: Probability = 0.5

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
        return self


class AsrSettings(_Section):
    """Speech recognition."""

    model: str = "moonshine-base-en"
    chunk_ms: int = Field(default=320, ge=80, le=1120, description="cadence of partial transcripts")
    threads: Threads = 1


class LlmSettings(_Section):
    """The language model."""

    model: str = Field(default="smollm2-135m", description="a model's name, or the path of a GGUF file")
    thinking_tokens: int = Field(default=0, ge=0, le=4096, description="budget of unspoken tokens; 0 is off")
    max_tokens: int = Field(default=160, ge=1, le=4096, description="longest reply, in tokens")
    context_tokens: int | None = Field(
        default=None, ge=256, le=1_048_576, description="default: 2048, or what the model was trained on if less"
    )
    seed: int = Field(default=0, ge=0, le=2**32 - 2)
    threads: Threads | None = Field(default=None, description="for decode; default: all cores but one")
    system_prompt: str | None = Field(default=None, description="instead of the built-in one")


class TtsSettings(_Section):
    """Speech synthesis."""

    model: str = "piper-en-us-joe"
    phonemizer: Literal["espeak", "gruut"] = Field(default="espeak", description="gruut needs the `permissive` extra")
    threads: Threads = 1


class Settings(BaseSettings):
    """Every setting of the agent. `load` is the way to make one."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, env_prefix=PREFIX, env_nested_delimiter="__")
    language: Literal["en"] = "en"
    endpoint: EndpointSettings = EndpointSettings()
    asr: AsrSettings = AsrSettings()
    llm: LlmSettings = LlmSettings()
    tts: TtsSettings = TtsSettings()
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
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        raise TurnscopeError(f"The setting {name} is not valid: {_reason(first)}.") from None
    except SettingsError as error:
        raise TurnscopeError(
            f"A {PREFIX}* environment variable is not valid: {str(error).split(' from ')[0]}."
        ) from None


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
        if (
            field is not None
            and rest
            and isinstance(field.annotation, type)
            and issubclass(field.annotation, BaseModel)
        ):
            known = rest in field.annotation.model_fields
        if not known:
            raise TurnscopeError(f"There is no setting for {name}: names are like {PREFIX}ASR__CHUNK_MS.")


def _without_none(tree: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: _without_none(value) if isinstance(value, Mapping) else value for key, value in tree.items()}
    return {key: value for key, value in kept.items() if value is not None and value != {}}


def _reason(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "there is no such setting"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{message[0].lower()}{message[1:]} (got {error['input']!r})" if error["type"] != "value_error" else message
