"""A call, from the offer until the page has gone: a line, an edge, a conversation and a run folder of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable

from agent.audio.sample_clock import Packet
from agent.audio.webrtc import WebRtcEdge
from agent.conversation import Conversation
from agent.errors import TurnscopeError
from agent.events import Event
from agent.web import heard
from agent.web.caller import Caller
from agent.web.choices import LOADING
from agent.web.line import Line
from agent.web.messages import Bye, FromPage, HeardReport, Hello, Notice, Phase, Ping, Pong, Refused, State, Toggle
from agent.web.page_side import PageSide
from agent.web.service import Service
from agent.web.writing import TurnWriter

END_S = 1.0  # how long a conversation that is stopped may take to end its turns


class Call:
    """`callers()` is how many are in a call now."""

    def __init__(self, caller: Caller, service: Service, callers: Callable[[], int]):
        self._caller = caller
        self._service = service
        self._callers = callers
        self._edge = WebRtcEdge(service.clock, caller.choices.engines.tts.sample_rate)
        self._page = PageSide(caller)
        self._phase: Phase = "waiting"
        self._talk: _Talk | None = None
        self._offered: Line | None = None
        self._something = asyncio.Event()  # to look at: another line, or the end
        self._over = False
        self._choosing: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        """No more lines are taken."""
        return self._over

    async def answer(self, sdp: str) -> str:
        """Answer an offer: the first, or one of a page whose line failed. Raises Refused."""
        line = Line(self._edge, self._page.greet, self._heed)
        answer = await line.answer(sdp)
        if self._over:
            await line.close()
            raise Refused("the call has just ended: offer again")
        before, self._offered = self._offered, line
        self._something.set()
        if before is not None:
            await before.close()
        return answer

    def hang_up(self) -> None:
        self._over = True
        self._something.set()

    def tell_state(self, reason: str | None = None) -> None:
        """To the page: something has changed, here or with the other callers."""
        self._page.state(State(self._phase, reason, self._callers(), self._service.limit))

    async def hold(self) -> None:
        """The call itself; then everything that it has is given back. What goes wrong ends this call, and no other."""
        reason = None
        try:
            if await self._take_line():
                await self._converse()
        except TurnscopeError as error:
            reason = str(error)
        except Exception as error:
            self._service.note(f"A call ended early: {type(error).__name__}: {error}")
            reason = "Something unexpected went wrong on the server, and the call has ended."
        finally:
            self._over, self._phase = True, "ended"
            self.tell_state(reason)
            if self._choosing is not None:
                self._choosing.cancel()
            await asyncio.gather(*(line.close() for line in (self._page.line, self._offered) if line is not None))

    async def _converse(self) -> None:
        await self._caller.choices.look()
        self._talk = _Talk(self._caller, self._service, self._edge, self._page, self._listens)
        tasks = [asyncio.create_task(self._talk.run()), asyncio.create_task(self._until_gone())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._over = True
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()

    def _listens(self) -> None:
        self._phase = "listening"
        self.tell_state()

    async def _take_line(self) -> bool:
        """Let the line that was offered last take over, once it is connected."""
        line, self._offered = self._offered, None
        if line is None:
            return False
        if not await line.connected():
            await line.close()
            return False
        before, self._page.line = self._page.line, line
        if before is not None:
            before.leave()
        line.take()
        self._page.greet()
        if before is not None:
            elsewhere = "The conversation goes on elsewhere."
            before.send(State("ended", elsewhere, self._callers(), self._service.limit))
            await before.close()
        return True

    async def _until_gone(self) -> None:
        """Until the page has gone and has offered no other line, or has hung up."""
        while not self._over:
            line = self._page.line
            assert line is not None
            gone, changed = asyncio.create_task(line.gone()), asyncio.create_task(self._something.wait())
            try:
                await asyncio.wait({gone, changed}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone.cancel()
                changed.cancel()
            self._something.clear()
            if self._over or (self._offered is None and gone.done()):
                return
            if self._offered is not None and not await self._take_line() and gone.done():
                return

    def _heed(self, message: FromPage) -> None:
        match message:
            case Ping(number):
                self._page.send(Pong(number, self._service.clock.now_ns() / 1e6))
            case Bye():
                self.hang_up()
            case Toggle(name, value):
                if self._choosing is None or self._choosing.done():
                    self._choosing = asyncio.create_task(self._choose(name, value))
                else:
                    self._page.send(Notice(LOADING))
            case HeardReport():
                if self._talk is not None:
                    self._talk.join(message)

    async def _choose(self, name: str, value: str) -> None:
        choices = self._caller.choices
        try:
            await choices.choose(name, value, self.tell_state)
        except TurnscopeError as error:
            self._page.send(Notice(str(error)))
        else:
            if self._talk is not None:
                self._talk.change()
        self.tell_state()


class _Talk:
    """The conversation of a call, and its run folder. Raises TurnscopeError where that cannot be made."""

    def __init__(
        self, caller: Caller, service: Service, edge: WebRtcEdge, page: PageSide, on_ready: Callable[[], None]
    ):
        self._caller = caller
        self._service = service
        self._edge = edge
        self._page = page
        self._on_ready = on_ready
        self._run = service.open_run()
        if caller.recorder is None and service.open_recorder is not None:
            caller.recorder = service.open_recorder()
        self._recorder = caller.recorder
        self._writer = TurnWriter(self._run)
        caller.turns.report = report = f"/report/{self._run.name}"
        engines = caller.choices.engines
        self._conversation = caller.conversation = Conversation(
            engines,
            caller.choices.settings,
            service.clock,
            edge.capture,
            edge.track,
            self._observe,
            earlier=caller.conversation,
        )
        models = {"asr": engines.asr.model, "llm": engines.llm.model, "tts": engines.tts.model}
        announced = self._recorder.announcement if self._recorder else None
        page.begin(Hello(caller.session, self._run.name, report, models, [], announced))

    async def run(self) -> None:
        """Until it is cancelled, which ends the turns that are open and writes all of them."""
        tasks = [asyncio.create_task(self._conversation.run(self._packets())), asyncio.create_task(self._writer.run())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._edge.hang_up()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=END_S)
            self._close()
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()

    def change(self) -> None:
        """What was chosen holds from the next turn on."""
        self._conversation.change(self._caller.choices.engines, self._caller.choices.settings)

    def join(self, report: HeardReport) -> None:
        """The page has heard a reply."""
        if (found := self._caller.turns.waiting_for_heard(report.turn)) is None:
            return
        turn, first_audio_ns = found
        written = turn.ended and self._writer.is_written(turn.index)
        if not written and heard.join(report, turn, first_audio_ns, self._service.clock.now_ns()):
            self._writer.heard()
            self._page.show(self._caller.turns.heard(turn))

    async def _packets(self) -> AsyncIterator[Packet]:
        """The first is asked for when the engines are ready."""
        self._on_ready()
        async for packet in self._edge.packets():
            if self._recorder is not None:
                self._recorder.packet(packet, self._edge.capture)
            yield packet

    def _observe(self, event: Event) -> None:
        if self._recorder is not None:
            self._recorder.observe(event)
        self._page.observe(event)
        self._writer.observe(event)

    def _close(self) -> None:
        try:
            self._writer.flush()
        finally:
            self._run.close(complete=True)
