"""A question to smart-turn: asked on its worker, and put on the turn with its answer."""

from dataclasses import dataclass

from agent.listening.endpoint import Decision, SilenceAsked
from agent.listening.endpoint_trail import Moment
from agent.listening.smart_turn import HEARD_S
from agent.listening.utterance import Utterance
from agent.worker import Job, once
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock
from profiling.trace.timeline import Attribute
from profiling.trace.vocabulary import Stage


@dataclass(frozen=True)
class Answer:
    """The probability that the sentence is finished, and when smart-turn worked on it."""

    probability: float
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Question:
    """What was asked, on which packet, and the work on it."""

    asked: SilenceAsked
    moment: Moment
    job: Job[Answer]


def ask(utterance: Utterance, asked: SilenceAsked, moment: Moment, clock: Clock) -> Question | None:
    """None without a smart-turn."""
    smart_turn = utterance.engines.smart_turn
    if smart_turn is None:
        return None
    audio = utterance.tail(HEARD_S)

    def answer(_: object) -> Answer:
        start_ns = clock.now_ns()
        return Answer(smart_turn.probability(audio), start_ns, clock.now_ns())

    return Question(asked, moment, utterance.engines.workers.smart_turn.submit(Stage.SMART_TURN, once(answer)))


def record(utterance: Utterance, question: Question, answer: Answer, decision: Decision | None) -> int:
    """The silence that led to the question, and the answer, whose step is returned."""
    turn, moment, job = utterance.turn, question.moment, question.job
    facts: dict[str, Attribute] = {v.ENDPOINT_PROBABILITY: answer.probability}
    if decision is not None:
        facts |= {v.ENDPOINT_TEXT: decision.text.value, v.ENDPOINT_WAIT_S: decision.wait_s}
    judged = utterance.trail.waited(question.asked, moment, "hangover" if question.asked.number == 1 else "asked again")
    host = turn.add(Stage.HOST, moment.judged_ns, job.submitted_ns, [judged], attributes={v.WHAT: "question"})
    return turn.add(
        Stage.SMART_TURN, answer.start_ns, answer.end_ns, [host], waited_for=job.waited_for, attributes=facts
    )
