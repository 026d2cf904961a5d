"""A call's toggles: what its page can choose, and what comes of a choice."""

import asyncio
from collections.abc import Callable, Sequence

from agent import toggles
from agent.engines import Engines
from agent.errors import TurnscopeError
from agent.settings import Settings
from agent.web.messages import Choice, Toggles, ToggleState
from profiling.trace.clock import Clock

OTHERS = "Others are in a call and use the same model: it can be changed when they have hung up."
LOADING = "A model is being loaded: wait a moment."


class Choices:
    """`others` tells whether there are other callers now; `on_load` is told the engines that a shared choice made.
    What there is to choose takes a while to find (files are looked at): it is known after `look`."""

    def __init__(
        self,
        engines: Engines,
        settings: Settings,
        clock: Clock,
        others: Callable[[], bool],
        on_load: Callable[[Engines, Settings], None],
    ):
        self._engines = engines
        self._settings = settings
        self._clock = clock
        self._others = others
        self._on_load = on_load
        self._found: Sequence[toggles.Toggle] = ()
        self.loading = False

    @property
    def engines(self) -> Engines:
        """As chosen, for the next turn."""
        return self._engines

    @property
    def settings(self) -> Settings:
        return self._settings

    async def look(self) -> None:
        self._found = await asyncio.to_thread(toggles.toggles, self._engines, self._settings)

    def use(self, engines: Engines, settings: Settings) -> None:
        """To be followed by `look`, at the latest when the next call begins."""
        self._engines, self._settings = engines, settings

    def shown(self) -> Toggles:
        return Toggles([self._state(toggle) for toggle in self._found])

    def values(self) -> dict[str, str]:
        """By label, of those that there is a choice for."""
        return {toggle.label: toggle.value for toggle in self._found if toggle.unavailable is None}

    async def choose(self, name: str, value: str, on_loading: Callable[[], None]) -> None:
        """`on_loading` is called when it will take a while. Raises TurnscopeError with the reason why not."""
        toggle = next((toggle for toggle in self._found if toggle.name == name), None)
        if toggle is not None and (reason := self._reason(toggle)):
            raise TurnscopeError(reason)
        if toggle is None or not toggle.needs_loading or value == toggle.value:
            self.use(*await asyncio.to_thread(toggles.apply, self._engines, self._settings, name, value))
            await self.look()
            return
        self.loading = True
        on_loading()
        try:
            found = await asyncio.to_thread(toggles.load, self._engines, self._settings, name, value, self._clock)
        finally:
            self.loading = False
        self._on_load(*found)
        self.use(*found)
        await self.look()

    def _state(self, toggle: toggles.Toggle) -> ToggleState:
        choices = [Choice(choice, choice) for choice in toggle.choices]
        reason = toggle.unavailable or self._reason(toggle)
        return ToggleState(toggle.name, toggle.label, toggle.value, choices, toggle.shared, reason)

    def _reason(self, toggle: toggles.Toggle) -> str | None:
        if self.loading:
            return LOADING
        return OTHERS if toggle.shared and self._others() else None
