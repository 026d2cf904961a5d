"""What listening tells the conversation."""

from dataclasses import dataclass

from agent.listening.utterance import Utterance
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage


@dataclass(frozen=True)
class Started:
    """The user speaks. `heard_ns` is when the packet arrived in which speech had lasted long enough."""

    turn: Turn
    heard_ns: int


@dataclass(frozen=True)
class Lasts:
    """A packet of an utterance arrived at `heard_ns`: up to the last voiced sample, which lies `silence_s` back, speech
    has lasted for `speech_s`."""

    turn: Turn
    speech_s: float
    silence_s: float
    heard_ns: int


@dataclass(frozen=True)
class Heard:
    """A partial transcript of the utterance that is being spoken."""

    turn: Turn
    text: str


@dataclass(frozen=True)
class Finished:
    """The utterance is over; it is to be finalised and answered."""

    utterance: Utterance


@dataclass(frozen=True)
class Failed:
    """A listening engine failed while the user spoke; listening goes on. `turn` is the one that cannot go on, if
    any."""

    stage: Stage
    error: Exception
    turn: Turn | None = None


ListenEvent = Started | Lasts | Heard | Finished | Failed
