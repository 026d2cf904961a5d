"""Scenarios: recorded conversations that are replayed to the agent, from their folders or bare WAV files."""

import difflib
from dataclasses import dataclass
from pathlib import Path

import scenarios
from agent.audio.sample_clock import CAPTURE_RATE_HZ
from agent.audio.wav import Recording, read_wav, require_sound
from agent.errors import TurnscopeError
from agent.scenario_file import FILE_NAME, After, ScenarioTable, read_table

BARE_WAV_DELAY_S = 0.5
RECORDINGS = Path("recordings")  # where conversations are recorded, and found again by their names


@dataclass(frozen=True, eq=False)
class Utterance:
    """What the user says at one go, and when. The fields are those of `UtteranceTable`, with the recording read."""

    recording: Recording
    speaker: str
    synthetic: bool
    licence: str | None
    transcript: str | None
    last_voiced_s: float | None
    after: After
    delay_s: float

    @property
    def last_voiced_sample(self) -> int | None:
        """S within the recording, as a sample number at 16 kHz; None when the scenario does not say it."""
        return None if self.last_voiced_s is None else round(self.last_voiced_s * CAPTURE_RATE_HZ)


@dataclass(frozen=True, eq=False)
class Scenario:
    """A conversation as the user's side of it. The fields are those of `ScenarioTable`; at least one utterance."""

    name: str
    description: str
    language: str | None
    licence: str | None
    source: str | None
    expect_turns: int
    utterances: tuple[Utterance, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(warning for utterance in self.utterances for warning in utterance.recording.warnings)


def bundled() -> list[str]:
    """The names of the scenarios that come with Turnscope, sorted."""
    return sorted(file.parent.name for file in _bundled_folder().glob(f"*/{FILE_NAME}"))


def load_scenario(name_or_path: str | Path) -> Scenario:
    """Load a bundled scenario by its name, else a scenario folder (or the scenario.toml in it), else a bare WAV file,
    else a recording by its name.

    A bare WAV file is a scenario of one utterance after half a second, whose end of speech is left to the VAD. A
    bundled name goes before a folder of that name in the current directory; write ./NAME for the folder. Raises
    TurnscopeError when there is no such scenario or anything in it is not valid.
    """
    if str(name_or_path) in bundled():
        return _load_folder(_bundled_folder() / name_or_path)
    path = Path(name_or_path)
    try:
        if path.is_dir():
            return _load_folder(path)
        if path.name == FILE_NAME:
            return _load_folder(path.parent)
        if path.exists() or path.suffix.lower() == ".wav":
            return _bare_wav(path)
        if (RECORDINGS / path / FILE_NAME).is_file():
            return _load_folder(RECORDINGS / path)
    except OSError as error:
        raise TurnscopeError(f"{path} cannot be read: {error.strerror or error}.") from None
    raise TurnscopeError(_no_such_scenario(str(name_or_path)))


def _bundled_folder() -> Path:
    return Path(scenarios.__path__[0])


def _no_such_scenario(name: str) -> str:
    close = difflib.get_close_matches(name, bundled(), n=1)
    guess = f"did you mean {close[0]}? " if close else ""
    return f"There is no scenario, folder or WAV file {name!r}: {guess}Bundled scenarios are {', '.join(bundled())}."


def _bare_wav(path: Path) -> Scenario:
    recording = read_wav(path)
    require_sound(recording)
    utterance = Utterance(
        recording,
        speaker="unknown",
        synthetic=False,
        licence=None,
        transcript=None,
        last_voiced_s=None,
        after="absolute",
        delay_s=BARE_WAV_DELAY_S,
    )
    return Scenario(path.stem, f"The recording {path.name}.", None, None, None, 1, (utterance,))


def _load_folder(folder: Path) -> Scenario:
    file = folder / FILE_NAME
    table = read_table(file)
    utterances = tuple(_read_utterance(file, number, table) for number in range(1, len(table.utterances) + 1))
    _check_order(file, utterances)
    expect_turns = len(utterances) if table.expect_turns is None else table.expect_turns
    if expect_turns == 0 and any(utterance.after != "absolute" for utterance in utterances):
        raise TurnscopeError(f'{file} expects no turns, so no utterance can wait for a reply: use after = "absolute".')
    name = folder.resolve().name
    return Scenario(name, table.description, table.language, table.licence, table.source, expect_turns, utterances)


def _read_utterance(file: Path, number: int, scenario: ScenarioTable) -> Utterance:
    table = scenario.utterances[number - 1]
    path = _inside(file, number, table.file)
    recording = read_wav(path)
    if table.last_voiced_s is not None and table.last_voiced_s > recording.duration_s:
        raise TurnscopeError(
            f"{file}: last_voiced_s of utterance {number} is {table.last_voiced_s} s, but {table.file} is only "
            f"{recording.duration_s:.3f} s long."
        )
    return Utterance(
        recording,
        table.speaker,
        table.synthetic,
        table.licence or scenario.licence,
        table.transcript,
        table.last_voiced_s,
        table.after,
        table.delay_s,
    )


def _inside(file: Path, number: int, name: str) -> Path:
    path = file.parent / name
    try:
        escapes = not path.resolve().is_relative_to(file.parent.resolve())
        exists = path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, a null character
        raise TurnscopeError(f"{file}: file of utterance {number} is not a usable path: {error}.") from None
    if escapes:
        raise TurnscopeError(f"{file}: file of utterance {number} lies outside the scenario's folder: {name!r}.")
    if not exists:
        raise TurnscopeError(f"{file}: file of utterance {number} does not exist: {name!r}.")
    return path


def _check_order(file: Path, utterances: tuple[Utterance, ...]) -> None:
    if utterances[0].after != "absolute":
        raise TurnscopeError(f'{file}: the first utterance has no reply before it: give it after = "absolute".')
    end_s = 0.0
    for number, utterance in enumerate(utterances, 1):
        if utterance.after != "absolute":
            continue
        if utterance.delay_s < end_s:
            raise TurnscopeError(
                f"{file}: utterance {number} starts at {utterance.delay_s} s, but an earlier one ends at {end_s:.3f} s."
            )
        end_s = utterance.delay_s + utterance.recording.duration_s
