"""What the page is shown of a call's turns: while they last, when they have ended, and when they were heard."""

from collections.abc import Callable
from dataclasses import dataclass

from agent.web.heard import error_s, heard_ns
from agent.web.messages import TurnShown, WaterfallRow
from agent.web.preview import at_first_audio
from agent.web.service import TurnView
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock, seconds
from profiling.trace.timeline import Turn

KEPT = 16  # turns of which something may still be shown


@dataclass
class _Seen:
    """A turn of which the page has been told."""

    turn: Turn
    settings: dict[str, str]
    first_audio_ns: int | None = None
    heard_text: str = ""
    shown: Turn | None = None


class ShownTurns:
    """Those of one conversation. `report` is the address of the run at hand."""

    def __init__(self, view: Callable[[Turn, Turn | None], TurnView], clock: Clock):
        self.report = ""
        self._view = view
        self._clock = clock
        self._seen: dict[int, _Seen] = {}
        self._last_settings: dict[str, str] = {}
        self._last_answered: Turn | None = None
        self._before: dict[int, tuple[Turn | None, dict[str, str]]] = {}

    def opened(self, turn: Turn, settings: dict[str, str]) -> None:
        self._seen[turn.index] = _Seen(turn, settings)
        self._seen.pop(turn.index - KEPT, None)
        self._before.pop(turn.index - KEPT, None)

    def audible(self, turn: Turn, at_ns: int) -> TurnShown | None:
        """At the first audio, which leaves at `at_ns`."""
        if (seen := self._seen.get(turn.index)) is None:
            return None
        seen.first_audio_ns = at_ns
        seen.shown = at_first_audio(turn, at_ns, self._clock.now_ns())
        return self._show(seen, seen.shown, complete=False) if seen.shown else None

    def ended(self, turn: Turn, heard_text: str) -> TurnShown | None:
        if (seen := self._seen.get(turn.index)) is None:
            return None
        seen.shown, seen.heard_text = turn, heard_text
        shown = self._show(seen, turn, complete=True)
        if turn.latency_ns is not None:
            self._last_answered, self._last_settings = turn, seen.settings
        return shown

    def waiting_for_heard(self, number: int) -> tuple[Turn, int] | None:
        """The turn of this number, and its first audio."""
        seen = self._seen.get(number)
        if seen is None or seen.first_audio_ns is None:
            return None
        return seen.turn, seen.turn.first_audio_ns or seen.first_audio_ns

    def heard(self, turn: Turn) -> TurnShown | None:
        """Again, with the time at which it was heard."""
        if (seen := self._seen.get(turn.index)) is None or seen.shown is None:
            return None
        return self._show(seen, seen.shown, complete=turn.ended)

    def _show(self, seen: _Seen, turn: Turn, *, complete: bool) -> TurnShown:
        before, settings = self._before.setdefault(turn.index, (self._last_answered, self._last_settings))
        view = self._view(turn, before)
        heard_after_ns = _after_speech(turn, heard_ns(seen.turn))
        rows = list(view.rows)
        if heard_after_ns is not None and turn.latency_ns is not None and heard_after_ns > turn.latency_ns:
            rows.append(_heard_row(seen.turn, turn.latency_ns, heard_after_ns))
        return TurnShown(
            turn=turn.index,
            complete=complete,
            latency_s=None if turn.latency_ns is None else seconds(turn.latency_ns),
            ended=view.ended if complete else "",
            breakdown=view.breakdown,
            rows=rows,
            deltas=list(view.deltas),
            settings=seen.settings,
            changed=[label for label, value in seen.settings.items() if settings.get(label, value) != value],
            heard_text=seen.heard_text,
            report=self.report,
            heard_after_s=None if heard_after_ns is None else seconds(heard_after_ns),
            heard_error_s=error_s(seen.turn),
        )


def _after_speech(turn: Turn, ns: int | None) -> int | None:
    return None if ns is None or turn.speech_end_ns is None else ns - turn.speech_end_ns


def _heard_row(turn: Turn, latency_ns: int, heard_after_ns: int) -> WaterfallRow:
    parts = {"jitter buffer": v.TURN_HEARD_JITTER_BUFFER_S, "output": v.TURN_HEARD_OUTPUT_S}
    known = {name: found for name, key in parts.items() if isinstance(found := turn.attributes.get(key), float)}
    note = ", ".join(f"{name} {found * 1e3:.0f} ms" for name, found in known.items())
    start_s, end_s = seconds(latency_ns), seconds(heard_after_ns)
    return WaterfallRow("heard", "network and browser", "network", start_s, end_s, end_s - start_s, note)
