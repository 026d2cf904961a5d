"""Records a conversation as a scenario, which `turnscope replay` plays: what the user said, and when.

What the user says at one go becomes one WAV file, from a little before to a little after it. The next file begins where
there is something that a replay can wait for: the reply has become audible, which the user then speaks into, or it has
ended. Until then pauses are part of the file: a sentence that is gone on with, a back-channel before words.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.audio.sample_clock import CAPTURE_RATE_HZ, Packet, SampleTimes
from agent.events import Event, ReplyAudible, TurnEnded, TurnOpened, UserSaid
from agent.recorded_sound import RecordedSound
from agent.recording_folder import RecordingFolder, Write
from agent.replay import SETTLED_S
from agent.scenario_file import After, ScenarioTable, UtteranceTable
from agent.settings import Settings
from profiling.trace.clock import NS_PER_S, Clock, seconds
from profiling.trace.timeline import Turn

LEAD_IN_NS = TAIL_NS = NS_PER_S // 2  # kept before and after speech
KEPT_S = 3.0  # of the sound that belongs to nothing yet: the lead-in, and the time in which speech is noticed
LICENCE, SPEAKER = "private", "whoever talked to the agent"


@dataclass(eq=False)
class _Go:
    """What the user says at one go, `start_ns` to `end_ns`; the end is None while the user speaks. `samples` are there
    once it is over, until they are written and no more can follow."""

    capture: SampleTimes
    start_ns: int
    after: After
    delay_s: float
    turns: list[Turn] = field(default_factory=list[Turn])
    end_ns: int | None = None
    over: bool = False
    samples: NDArray[np.float32] | None = None
    unwritten: bool = True


class ScenarioRecorder:
    """Is given the user's packets, each before the conversation gets it, and every event. Files are written while
    nobody waits for a reply: those of a turn while its reply is heard. Where one cannot be written, `tell` is told so
    in a sentence, once; nothing more is recorded then, and the conversation goes on."""

    def __init__(
        self, folder: Path, settings: Settings, clock: Clock, *, write: Write, tell: Callable[[str], None], command: str
    ):
        """`folder` is empty (`new_recording`), `command` is what records, such as "turnscope talk". What was said is
        written where the settings keep content."""
        self._files = RecordingFolder(folder, write)
        self._settings = settings
        self._tell = tell
        self._command = command
        self._started = datetime.fromtimestamp(clock.wall_ns() // NS_PER_S, UTC)
        self._capture: SampleTimes | None = None
        self._origin_ns = 0
        self._sound = RecordedSound()
        self._goes: list[_Go] = []
        self._open: set[int] = set()
        self._awaited: set[int] = set()
        self._said: dict[int, str] = {}
        self._reply_ns: int | None = None  # when a reply became audible since the last go began
        self._ended_ns = 0  # when the last turn ended
        self._changed = self._failed = False

    @property
    def announcement(self) -> str:
        return f"What you say is recorded in {self._files.folder}."

    def packet(self, packet: Packet, capture: SampleTimes) -> None:
        """The next of the user's sound, on the clock of its edge. Those of another edge may follow."""
        if capture is not self._capture:
            self._end_go()
            self._capture, self._sound = capture, RecordedSound()
            self._origin_ns = self._origin_ns or capture.ns_of(packet.start_sample)
        self._sound.append(packet)
        go = self._goes[-1] if self._goes else None
        if go is not None and not go.over:
            self._end_go_in_time(go)
        if go is None or not self._may_be_gone_on_with(go):
            self._sound.forget(self._sound.end - round(KEPT_S * CAPTURE_RATE_HZ))
        self._save_in_time()

    def observe(self, event: Event) -> None:
        match event:
            case TurnOpened(turn):
                self._speech_begins(turn)
            case UserSaid(turn, text):
                self._said[turn.index] = text
                self._changed = True
            case ReplyAudible(turn, at_ns):
                self._reply_ns = at_ns
                self._awaited.discard(turn.index)
            case TurnEnded(turn, transcript):
                self._said[turn.index] = transcript
                self._ended_ns = turn.end_ns or self._ended_ns
                self._open.discard(turn.index)
                self._awaited.discard(turn.index)
                self._changed = True
            case _:
                return
        self._save_in_time()

    def close(self) -> None:
        """Write what is not written yet. Where nothing was said, there is no folder."""
        self._end_go()
        self._save()
        with suppress(OSError):
            self._files.remove_if_empty()

    def _speech_begins(self, turn: Turn) -> None:
        assert self._capture is not None
        after, anchor_ns = self._anchor(turn)
        if anchor_ns is None:
            go = self._goes[-1]
            go.over, go.end_ns, go.samples = False, None, None
        else:
            earliest_ns = max(self._capture.ns_of(self._sound.start), min(anchor_ns, turn.speech_start_ns))
            start_ns = max(turn.speech_start_ns - LEAD_IN_NS, earliest_ns)
            self._end_go(start_ns)
            go = _Go(self._capture, start_ns, after, round(max(0.0, seconds(start_ns - anchor_ns)), 6))
            self._goes.append(go)
            self._reply_ns = None
        go.turns.append(turn)
        self._open.add(turn.index)
        self._awaited.add(turn.index)

    def _anchor(self, turn: Turn) -> tuple[After, int | None]:
        """What a replay waits for before the speech that opened this turn, and when that was; None where the speech
        belongs to the go before."""
        if not self._goes:
            return "absolute", self._origin_ns
        last = self._goes[-1]
        if last.capture is not self._capture:
            return "reply_end", self._ended_ns
        if last.end_ns is None:
            return last.after, None
        if self._open:
            audible = self._reply_ns is not None and self._reply_ns < turn.speech_start_ns
            return "reply_start", self._reply_ns if audible else None
        settled = turn.speech_start_ns - LEAD_IN_NS >= last.end_ns + round(SETTLED_S * NS_PER_S)
        return "reply_end", self._ended_ns if settled else None

    def _may_be_gone_on_with(self, go: _Go) -> bool:
        """Whether what is said next may belong to this go."""
        if not go.over or (self._open and self._reply_ns is None):
            return True
        last_ns = max(go.end_ns or 0, self._reply_ns or 0, self._ended_ns)
        return go.capture.ns_of(self._sound.end) < last_ns + round(KEPT_S * NS_PER_S)

    def _end_go_in_time(self, go: _Go) -> None:
        """Once the tail after its last speech has been heard."""
        ends = [turn.speech_end_ns or turn.end_ns for turn in go.turns]
        known = [end_ns for end_ns in ends if end_ns is not None]
        if len(known) == len(ends):
            go.end_ns = max(known) + TAIL_NS
            if go.capture.sample_at(go.end_ns) <= self._sound.end:
                self._end_go()

    def _end_go(self, before_ns: int | None = None) -> None:
        """What has been heard of the last go is all of it. Where another begins at `before_ns`, it ends by then."""
        go = self._goes[-1] if self._goes else None
        if go is None or (go.over and before_ns is None):
            return
        self._changed = True
        if not go.over:
            ends_ns = (go.end_ns, before_ns, go.capture.ns_of(self._sound.end))
            go.end_ns = min(end_ns for end_ns in ends_ns if end_ns is not None)
            first, last = go.capture.sample_at(go.start_ns), go.capture.sample_at(go.end_ns)
            go.over, go.samples, go.unwritten = True, self._sound.between(first, last), True
        elif before_ns is not None and go.samples is not None and before_ns < (go.end_ns or 0):
            length = go.capture.sample_at(before_ns) - go.capture.sample_at(go.start_ns)
            go.end_ns, go.samples, go.unwritten = before_ns, go.samples[:length], True

    def _save_in_time(self) -> None:
        if self._changed and not self._awaited and self._goes and self._goes[-1].over:
            self._save()

    def _save(self) -> None:
        self._changed = False
        if self._failed or not (ready := [go for go in self._goes if go.over]):
            return
        try:
            self._files.write_settings(self._settings)
            for number, go in enumerate(ready, 1):
                if go.unwritten and go.samples is not None:
                    self._files.write_sound(_file(number), go.samples)
                    go.unwritten = False
                if go is not ready[-1]:
                    go.samples = None
            self._files.write_scenario(self._table(ready))
        except OSError as error:
            self._failed = True
            self._tell(
                f"The recording {self._files.folder} cannot be written ({error.strerror or error}): what is there can "
                "be replayed, and nothing more is recorded."
            )

    def _table(self, goes: Sequence[_Go]) -> ScenarioTable:
        utterances = [
            UtteranceTable(
                file=_file(number),
                speaker=SPEAKER,
                synthetic=False,
                transcript=self._words(go) if self._settings.capture_content else None,
                after=go.after,
                delay_s=go.delay_s,
            )
            for number, go in enumerate(goes, 1)
        ]
        return ScenarioTable(
            description=f"A conversation, recorded with {self._command}.",
            language=self._settings.language,
            licence=LICENCE,
            source=f"Recorded with {self._command} on {self._started:%Y-%m-%d at %H:%M} UTC, private.",
            expect_turns=sum(len(go.turns) for go in goes),
            utterances=utterances,
        )

    def _words(self, go: _Go) -> str | None:
        return " ".join(said for turn in go.turns if (said := self._said.get(turn.index))) or None


def _file(number: int) -> str:
    return f"{number:03}.wav"
