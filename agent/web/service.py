"""What the server works with: the engines, and what the command line knows and the web does not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.audio.sample_clock import Packet, SampleTimes
from agent.engines import Engines
from agent.events import Event
from agent.settings import Settings
from agent.web.messages import Delta, WaterfallRow
from profiling.trace.clock import Clock
from profiling.trace.timeline import Turn


class CallRun(Protocol):
    """The run folder of one call; its methods raise TurnscopeError when it cannot be written."""

    @property
    def name(self) -> str: ...

    def observe(self, event: Event) -> None: ...

    def close(self, complete: bool) -> None: ...


class CallRecorder(Protocol):
    """Saves what a caller says as a scenario. `announcement` is a sentence for the page."""

    @property
    def announcement(self) -> str: ...

    def packet(self, packet: Packet, capture: SampleTimes) -> None: ...

    def observe(self, event: Event) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class TurnView:
    """What is shown of a turn; see `messages.TurnShown`."""

    ended: str
    breakdown: str
    rows: Sequence[WaterfallRow]
    deltas: Sequence[Delta]


@dataclass(frozen=True)
class Service:
    """`view(turn, before)` shows a turn beside the one before it, if any. `report(run)` is a page of HTML about a run
    folder, None when there is none of that name; it is called on a thread. `note` tells whoever started the server.
    `limit` is the number of callers at once."""

    engines: Engines
    settings: Settings
    clock: Clock
    open_run: Callable[[], CallRun]
    view: Callable[[Turn, Turn | None], TurnView]
    report: Callable[[str], str | None]
    note: Callable[[str], None]
    limit: int = 3
    open_recorder: Callable[[], CallRecorder] | None = None
