"""The record of a turn: an append-only list of steps on one monotonic clock. Everything else is derived from it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from profiling.trace.vocabulary import KIND_OF_STAGE, EndReason, Kind, Stage

Attribute = str | int | float | bool | Sequence[int] | Sequence[float] | Sequence[str]


def frozen(attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """A copy of attributes whose sequences are tuples, so that what was recorded cannot change afterwards."""
    return {k: cast(Attribute, tuple(v)) if isinstance(v, list) else v for k, v in attributes.items()}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened in a turn, `start_ns` to `end_ns` on the monotonic clock.

    `causes` are the indices of the earlier steps without which this one could not have started; none means that the
    turn itself (the user's speech) was the cause. `waited_for` names the holder of the resource (a thread, a model)
    when the step was ready before it could start; the time between is then `queue`, otherwise `unattributed`.
    `phrase` numbers the phrase of the reply that the step worked on.
    """

    index: int
    stage: Stage
    start_ns: int
    end_ns: int
    causes: tuple[int, ...] = ()
    waited_for: str | None = None
    phrase: int | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])

    @property
    def kind(self) -> Kind:
        return KIND_OF_STAGE[self.stage]

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(slots=True)
class Turn:
    """The timeline of one turn: the user's utterance and the agent's reply.

    `speech_end_ns` is S, the last voiced sample; `speech_end_estimated` says that the VAD placed it. `first_audio_ns`
    is A, the first audible 10 ms of the reply as it leaves the local edge, and `first_audio_step` is the index of the
    step that ends there. `groups` holds the attributes of the spans that gather steps, by (group, phrase).
    """

    conversation_id: str
    index: int
    speech_start_ns: int
    speech_end_ns: int | None = None
    speech_end_estimated: bool = True
    first_audio_ns: int | None = None
    first_audio_step: int | None = None
    end_reason: EndReason | None = None
    end_ns: int | None = None
    steps: list[Step] = field(default_factory=list[Step])
    groups: dict[tuple[str, int | None], dict[str, Attribute]] = field(
        default_factory=dict[tuple[str, int | None], dict[str, Attribute]]
    )
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])

    def add(
        self,
        stage: Stage,
        start_ns: int,
        end_ns: int,
        causes: Iterable[int | None] = (),
        *,
        waited_for: str | None = None,
        phrase: int | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> int:
        """Append a step and return its index. `None` among the causes is passed over.

        Raises ValueError when the step ends before it starts or names a cause that is not there yet.
        """
        index = len(self.steps)
        known = tuple(cause for cause in causes if cause is not None)
        if end_ns < start_ns:
            raise ValueError(f"step {stage} ends {start_ns - end_ns} ns before it starts")
        if any(not 0 <= cause < index for cause in known):
            raise ValueError(f"step {stage} names a cause that is not an earlier step: {known}")
        self.steps.append(Step(index, stage, start_ns, end_ns, known, waited_for, phrase, frozen(attributes or {})))
        return index

    def describe(self, group: str, attributes: Mapping[str, Attribute], phrase: int | None = None) -> None:
        """Add attributes to the span that gathers a group's steps (`vocabulary.ASR`, ...), per phrase for TTS."""
        self.groups.setdefault((group, phrase), {}).update(frozen(attributes))

    @property
    def ended(self) -> bool:
        """True once the turn is complete; nothing is added to it any more."""
        return self.end_ns is not None

    @property
    def latency_ns(self) -> int | None:
        """Turn latency A - S; None when no audio was heard before the turn ended."""
        if self.first_audio_ns is None or self.speech_end_ns is None:
            return None
        return self.first_audio_ns - self.speech_end_ns
