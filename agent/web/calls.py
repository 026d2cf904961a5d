"""All callers: so many at once, each with what is its own; the models are everybody's."""

import asyncio
import secrets
from dataclasses import dataclass, replace

from agent.engines import Engines
from agent.settings import Settings
from agent.web.call import Call
from agent.web.caller import Caller
from agent.web.choices import Choices
from agent.web.messages import Answer, Offer
from agent.web.service import Service
from agent.web.shown import ShownTurns

KEPT_S = 120.0  # how long a caller's history is kept after a call
MAX_KEPT = 50


class Full(Exception):
    """A sentence: why nobody else can call now."""


@dataclass
class _Held:
    call: Call
    task: asyncio.Task[None]


class Calls:
    def __init__(self, service: Service):
        self._service = service
        self._callers: dict[str, Caller] = {}
        self._held: dict[str, _Held] = {}
        self._forgetting: dict[str, asyncio.TimerHandle] = {}
        self._closed = False

    def __len__(self) -> int:
        """How many are in a call."""
        return len(self._held)

    async def offer(self, offer: Offer) -> Answer:
        """Take a caller, or another line of one. Raises Full and Refused."""
        held = self._held.get(offer.session or "")
        if held is not None and held.call.over:
            await asyncio.wait([held.task])
            held = self._held.get(offer.session or "")
        if held is None:
            return await self._new_call(offer)
        return Answer(await held.call.answer(offer.sdp), offer.session or "")

    def bye(self, session: str | None) -> None:
        if (held := self._held.get(session or "")) is not None:
            held.call.hang_up()

    async def close(self) -> None:
        """End every call, its turns written."""
        self._closed = True
        tasks = [held.task for held in self._held.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for session in list(self._callers):
            self._forget(session)

    async def _new_call(self, offer: Offer) -> Answer:
        self._refuse_when_full()
        caller = self._caller(offer.session)
        call = Call(caller, self._service, self.__len__)
        task = asyncio.create_task(self._hold(call, answered := asyncio.Event()))
        task.add_done_callback(lambda _: self._over(caller))
        self._held[caller.session] = _Held(call, task)
        try:
            answer = await call.answer(offer.sdp)
        except BaseException:
            task.cancel()
            raise
        answered.set()
        return Answer(answer, caller.session)

    async def _hold(self, call: Call, answered: asyncio.Event) -> None:
        await answered.wait()
        self._tell()
        await call.hold()

    def _over(self, caller: Caller) -> None:
        self._held.pop(caller.session, None)
        self._keep(caller)
        self._tell()

    def _refuse_when_full(self) -> None:
        if self._closed:
            raise Full("The server is closing.")
        if any(caller.choices.loading for caller in self._callers.values()):
            raise Full("A model is being loaded for somebody else: call again in a moment.")
        if len(self._held) >= self._service.limit:
            taken = "The line is" if self._service.limit == 1 else f"All {self._service.limit} lines are"
            raise Full(f"{taken} taken just now: call again when somebody has hung up.")

    def _caller(self, session: str | None) -> Caller:
        """The one with this session, if it is known; otherwise somebody new."""
        if (timer := self._forgetting.pop(session or "", None)) is not None:
            timer.cancel()
        if (known := self._callers.get(session or "")) is not None:
            return known
        service = self._service
        choices = Choices(service.engines, service.settings, service.clock, lambda: len(self) > 1, self._on_load)
        caller = Caller(secrets.token_urlsafe(24), choices, ShownTurns(service.view, service.clock))
        self._callers[caller.session] = caller
        return caller

    def _on_load(self, engines: Engines, settings: Settings) -> None:
        """A shared model has been changed: whoever calls from now on has it, too."""
        self._service = replace(self._service, engines=engines, settings=settings)
        for session, caller in self._callers.items():
            if session not in self._held:
                caller.choices.use(engines, settings)

    def _keep(self, caller: Caller) -> None:
        """For a while; without anything that was said, not at all."""
        said = bool(caller.said()) and not self._closed
        if said:
            while len(self._forgetting) >= MAX_KEPT:
                self._forget(next(iter(self._forgetting)))
            later = asyncio.get_running_loop().call_later(KEPT_S, self._forget, caller.session)
            self._forgetting[caller.session] = later
        else:
            self._forget(caller.session)

    def _forget(self, session: str) -> None:
        if (caller := self._callers.pop(session, None)) is not None:
            caller.forget()
        if (timer := self._forgetting.pop(session, None)) is not None:
            timer.cancel()

    def _tell(self) -> None:
        """How many call has changed, and with it what can be chosen."""
        for held in self._held.values():
            held.call.tell_state()
