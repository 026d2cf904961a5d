"""What a scenario.toml may say, and the sentence that tells its author what is wrong with it."""

import reprlib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.errors import TurnscopeError

FILE_NAME = "scenario.toml"
After = Literal["absolute", "reply_start", "reply_end"]

_Text = Annotated[str, Field(min_length=1)]
_Seconds = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class UtteranceTable(_Table):
    """One `[[utterances]]` table of a scenario.toml."""

    file: _Text
    """The WAV file, relative to the scenario's folder and inside it."""
    speaker: _Text
    """Who spoke."""
    synthetic: bool
    """True when a machine spoke, or made the noise."""
    licence: _Text | None = None
    """The recording's licence. Left out: the scenario's."""
    transcript: str | None = None
    """What is said; leave it out when unknown."""
    last_voiced_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Where in the file the last speech sound ends. Left out, the VAD estimates it."""
    after: After
    """What the delay counts from. `absolute`: the start of the replay, though never before the previous utterance has
    ended. `reply_start`: the agent's first audio in reply to the previous utterance, so that this one barges in.
    `reply_end`: that reply's last sample."""
    delay_s: _Seconds
    """Seconds from there to the file's first sample."""


class ScenarioTable(_Table):
    """A whole scenario.toml. The scenario's name is that of its folder."""

    description: _Text
    """One sentence on what it shows."""
    language: _Text
    """Language spoken, as an ISO 639-1 code."""
    licence: _Text
    """The recordings' licence."""
    source: _Text | None = None
    """Where the recordings come from and how they were made."""
    expect_turns: Annotated[int, Field(ge=0)] | None = None
    """How many times the agent is to answer, interrupted replies included. Left out: once per utterance."""
    utterances: Annotated[list[UtteranceTable], Field(min_length=1)]


def read_table(file: Path) -> ScenarioTable:
    """Read and validate a scenario.toml. Raises TurnscopeError that names line and column, or the key at fault."""
    try:
        return ScenarioTable.model_validate(_read_toml(file))
    except ValidationError as error:
        first = error.errors()[0]
        raise TurnscopeError(
            f"{file}: {_explain(first['type'], first['loc'], first['msg'], first['input'])}."
        ) from None


def _read_toml(file: Path) -> dict[str, Any]:
    text = _read_text(file)
    try:
        return tomllib.loads(text)
    except ValueError as error:  # the message says "(at line 3, column 7)" or "(at end of document)"
        line, column = _position_behind(text)
        reason = str(error).replace("at end of document", f"at the end, line {line}, column {column}")
        raise TurnscopeError(f"{file} is not valid TOML: {reason}.") from None
    except RecursionError:
        raise TurnscopeError(f"{file} is not a scenario: its values are nested too deeply.") from None


def _read_text(file: Path) -> str:
    if file.exists() and not file.is_file():
        raise TurnscopeError(f"{file} is not a file: put the scenario's description there.")
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise TurnscopeError(f"{file.parent} is not a scenario: it holds no {FILE_NAME}.") from None
    except OSError as error:
        raise TurnscopeError(f"{file} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        line, column = _position_behind(error.object[: error.start].decode("utf-8"))
        raise TurnscopeError(f"{file} is not UTF-8 text (at line {line}, column {column}): save it as UTF-8.") from None


def _position_behind(text: str) -> tuple[int, int]:
    """The line and column, both from 1, of what follows the text."""
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _explain(kind: str, location: tuple[int | str, ...], message: str, value: object) -> str:
    in_utterance = len(location) > 1
    place = f"utterance {int(location[1]) + 1}" if in_utterance else "the scenario"
    key = location[-1]
    if kind == "extra_forbidden":
        known = (UtteranceTable if in_utterance else ScenarioTable).model_fields
        return f"{place} has an unknown key {key!r}; the keys are {', '.join(known)}"
    if kind == "missing":
        return f"{place} lacks the key {key!r}"
    if isinstance(key, int):
        return f"{place} is not a table: begin it with [[utterances]]"
    return f"{key} of {place} is not valid: {message[0].lower()}{message[1:]} (got {reprlib.repr(value)})"
