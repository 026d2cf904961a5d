"""What a conversation tells those who watch it: the terminal, the run folder, a scenario's player."""

from dataclasses import dataclass

from profiling.trace.timeline import Turn


@dataclass(frozen=True)
class TurnOpened:
    """The user speaks."""

    turn: Turn


@dataclass(frozen=True)
class PartialTranscript:
    turn: Turn
    text: str


@dataclass(frozen=True)
class UserSaid:
    turn: Turn
    text: str


@dataclass(frozen=True)
class AgentSays:
    """A phrase of the reply, as it is given to the voice."""

    turn: Turn
    text: str


@dataclass(frozen=True)
class ReplyAudible:
    """The reply's first audible sample leaves the edge at `at_ns`, which may lie a little ahead."""

    turn: Turn
    at_ns: int


@dataclass(frozen=True)
class TurnEnded:
    """The turn is complete. `heard` is the part of the reply that the user heard; `error` is set when an engine
    failed."""

    turn: Turn
    transcript: str
    reply: str
    heard: str
    error: Exception | None = None


@dataclass(frozen=True)
class ListeningFailed:
    """A listening engine failed while the user spoke; the conversation goes on."""

    stage: str
    error: Exception


@dataclass(frozen=True)
class HistoryTrimmed:
    """The model's context is full: so many of the oldest turns are forgotten from here on."""

    turn: Turn
    dropped: int


Event = (
    TurnOpened | HistoryTrimmed | PartialTranscript | UserSaid | AgentSays | ReplyAudible | TurnEnded | ListeningFailed
)
