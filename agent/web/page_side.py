"""What a page is told of its call."""

from agent.errors import TurnscopeError
from agent.events import (
    AgentSays,
    Event,
    HistoryTrimmed,
    ListeningFailed,
    PartialTranscript,
    ReplyAudible,
    TurnEnded,
    TurnOpened,
    UserSaid,
)
from agent.web.caller import Caller
from agent.web.line import Line
from agent.web.messages import Audible, Hello, Notice, Says, State, ToPage, Transcript, TurnShown

UNSENT = 20  # turns that are kept for a page that is away


class PageSide:
    """The page is there as long as `line` is. Nothing is told before `begin`, which names the run."""

    def __init__(self, caller: Caller) -> None:
        self.line: Line | None = None
        self._caller = caller
        self._hello: Hello | None = None
        self._greeted: Line | None = None
        self._state: State | None = None

    def begin(self, hello: Hello) -> None:
        """`hello` is completed by what was said so far."""
        self._hello = hello
        self.greet()

    def greet(self) -> None:
        """Tell a page that has come all that it needs to know."""
        if self._hello is None or self.line is None or not self.line.open or self._greeted is self.line:
            return
        self._greeted = self.line
        hello = self._hello
        self.send(
            Hello(hello.session, hello.run, hello.report, hello.models, self._caller.said(), recording=hello.recording)
        )
        self._tell_state()
        unsent, self._caller.unsent = self._caller.unsent, []
        for shown in unsent:
            self.show(shown)

    def state(self, state: State) -> None:
        """The call's, and with it what can be chosen."""
        self._state = state
        if self._greeted is self.line or state.phase == "ended":
            self._tell_state()

    def send(self, message: ToPage) -> bool:
        return self.line is not None and self.line.send(message)

    def show(self, shown: TurnShown | None) -> None:
        if shown is not None and not self.send(shown) and shown.complete:
            self._caller.unsent = [*self._caller.unsent, shown][-UNSENT:]

    def observe(self, event: Event) -> None:
        turns = self._caller.turns
        match event:
            case TurnOpened(turn):
                turns.opened(turn, self._caller.choices.values())
            case PartialTranscript(turn, text):
                self.send(Transcript(turn.index, text, final=False))
            case UserSaid(turn, text):
                self.send(Transcript(turn.index, text, final=True))
            case AgentSays(turn, text):
                self.send(Says(turn.index, text))
            case ReplyAudible(turn, at_ns):
                self.send(Audible(turn.index, at_ns / 1e6))
                self.show(turns.audible(turn, at_ns))
            case TurnEnded(turn, heard=heard, error=error):
                self.show(turns.ended(turn, heard))
                if error is not None:
                    self.send(Notice(_sentence(error)))
            case ListeningFailed(_, error):
                self.send(Notice(_sentence(error)))
            case HistoryTrimmed(_, dropped):
                oldest = "turn is" if dropped == 1 else f"{dropped} turns are"
                self.send(Notice(f"The model's context is full: the oldest {oldest} forgotten from here on."))

    def _tell_state(self) -> None:
        if self._state is not None:
            self.send(self._state)
            self.send(self._caller.choices.shown())


def _sentence(error: Exception) -> str:
    if isinstance(error, TurnscopeError):
        return str(error)
    return f"An engine failed ({type(error).__name__}), and the turn has ended; the next one can go on."
