"""What a key changes between turns of a conversation, and what it changed in the wait."""

from collections.abc import Callable

from agent.engines import Engines
from agent.errors import TurnscopeError
from agent.events import Event, TurnEnded, TurnOpened
from agent.settings import Settings
from agent.talk import Talk
from agent.toggles import Toggle, apply, load, toggles
from agent.watch import Bound
from agent.worker import ThreadWorker, once
from profiling.report.breakdown import change_line, setting_changes
from profiling.trace.clock import Clock
from profiling.trace.timeline import Turn
from profiling.turn import counts

TOGGLE_OF_KEY = {"t": "thinking", "c": "chunk", "v": "voice"}
CLOSE_S = 0.5
_LOADING = Bound(name="loading")


class Toggling:
    """`turn` takes the next choice of a toggle; `say` is told why it cannot be had. Give it every event, before
    `effect` is asked of a turn that has ended."""

    def __init__(self, talk: Talk, clock: Clock, say: Callable[[str], None]):
        self._talk = talk
        self._clock = clock
        self._say = say
        self._toggles = toggles(talk.engines, talk.settings)
        self._under_way: set[int] = set()
        self._chosen: dict[int, dict[str, str]] = {}
        self._last: Turn | None = None
        self._worker = ThreadWorker("loading", clock, _LOADING)
        self.loading: str | None = None  # the model that is being loaded

    def shown(self, key: str) -> str:
        """The toggle of a key, and what it is at."""
        toggle = self._toggle(TOGGLE_OF_KEY[key])
        return f"{toggle.label} {toggle.value}"

    def observe(self, event: Event) -> None:
        match event:
            case TurnOpened(turn):
                self._under_way.add(turn.index)
                self._chosen[turn.index] = {toggle.label: toggle.value for toggle in self._toggles if toggle.value}
            case TurnEnded(turn):
                self._under_way.discard(turn.index)
            case _:
                pass

    def effect(self, turn: Turn) -> str | None:
        """This turn beside the last one that had a wait, where something was changed between them."""
        chosen, last = self._chosen.get(turn.index, {}), self._last
        if not counts(turn):
            return None
        self._last = turn
        what = setting_changes(self._chosen.get(last.index, {}), chosen) if last else ""
        for index in [index for index in self._chosen if index < turn.index]:
            del self._chosen[index]
        return change_line(what, last, turn) if last and what else None

    async def turn(self, key: str) -> None:
        """Take the next choice; a model is loaded for it where that is needed."""
        toggle = self._toggle(TOGGLE_OF_KEY[key])
        if toggle.unavailable or self.loading:
            return self._say(toggle.unavailable or f"{self.loading} is being loaded.")
        if toggle.needs_loading and self._under_way:
            return self._say(f"The {toggle.label} changes between turns: try again when the reply has ended.")
        try:
            self._take(await self._made(toggle, _next(toggle)))
        except TurnscopeError as error:
            self._say(str(error))

    async def close(self) -> None:
        """A model that is being loaded is left to itself."""
        await self._worker.close(CLOSE_S)

    async def _made(self, toggle: Toggle, choice: str) -> tuple[Engines, Settings]:
        engines, settings = self._talk.engines, self._talk.settings
        if not toggle.needs_loading:
            return apply(engines, settings, toggle.name, choice)
        self.loading = choice
        try:
            work = once(lambda _: load(engines, settings, toggle.name, choice, self._clock))
            return await self._worker.submit("loading", work).result()
        finally:
            self.loading = None

    def _take(self, changed: tuple[Engines, Settings]) -> None:
        self._talk.change(*changed)
        self._toggles = toggles(*changed)

    def _toggle(self, name: str) -> Toggle:
        return next(toggle for toggle in self._toggles if toggle.name == name)


def _next(toggle: Toggle) -> str:
    place = toggle.choices.index(toggle.value)
    return toggle.choices[(place + 1) % len(toggle.choices)]
