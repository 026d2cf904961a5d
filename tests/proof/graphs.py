"""Turns as a pipeline makes them, with every cause recorded: chance decides how long things take, how often the user
goes on, what is tried early and thrown away, who holds which engine."""

import random
from dataclasses import dataclass, field

from profiling.trace import vocabulary as v
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import Stage

MS = 1_000_000


@dataclass
class Pipeline:
    """Makes one turn. An engine does one thing at a time: what comes while it is held waits, and says for whom."""

    rng: random.Random
    turn: Turn
    free_ns: dict[str, int] = field(default_factory=dict[str, int])
    discarded: set[int] = field(default_factory=set[int])
    waited: int = 0

    def lasts(self, most_ms: int) -> int:
        """Also nothing at all, and a single nanosecond."""
        return self.rng.choice((0, 1, self.rng.randrange(most_ms * MS), self.rng.randrange(most_ms * MS)))

    def after(self, causes: list[int]) -> int:
        return max(self.turn.steps[cause].end_ns for cause in causes)

    def step(self, stage: Stage, most_ms: int, causes: list[int], engine: str | None = None) -> int:
        """Begins as soon as its causes have ended and its engine is free."""
        ready_ns = self.after(causes)
        start_ns, waited_for = ready_ns, None
        if engine is not None and self.free_ns.get(engine, 0) > ready_ns:
            start_ns, waited_for, self.waited = self.free_ns[engine], f"{engine}.other", self.waited + 1
        end_ns = start_ns + self.lasts(most_ms)
        if engine is not None:
            self.free_ns[engine] = end_ns
        return self.turn.add(stage, start_ns, end_ns, causes, waited_for=waited_for)

    def silence(self, start_ns: int) -> int:
        """A timer that runs from where the user fell silent."""
        return self.turn.add(Stage.ENDPOINT_WAIT, start_ns, start_ns + self.lasts(800))

    def answer(self, trigger: int) -> int:
        """From the moment that something is to be answered to the first patch of the voice."""
        final = self.step(Stage.ASR_FINALIZE, 90, [trigger], "asr")
        host = self.step(Stage.HOST, 2, [final])
        last = self.step(Stage.LLM_PREFILL, 300, [host], "llm")
        if self.rng.random() < 0.4:
            last = self.step(Stage.LLM_THINKING, 900, [last])
        phrase = self.step(Stage.LLM_FIRST_PHRASE, 300, [last])
        decoded = self.step(Stage.LLM_DECODE, 900, [phrase])
        self.free_ns["llm"] = max(self.free_ns["llm"], self.turn.steps[decoded].end_ns)
        setup = self.step(Stage.TTS_SETUP, 250, [phrase], "tts")
        patch = self.step(Stage.TTS_FIRST_PATCH, 200, [setup])
        rest = self.step(Stage.TTS_PATCHES, 900, [patch])
        self.free_ns["tts"] = self.turn.steps[rest].end_ns
        return patch


def simulated_turn(rng: random.Random) -> Pipeline:
    """A turn whose every step begins when its causes end or its engine becomes free: nothing of it is unexplained."""
    start_ns = rng.randrange(10**12)
    made = Pipeline(rng, Turn("graphs", 1, start_ns))
    now_ns = start_ns
    made.free_ns |= {engine: start_ns + made.lasts(4000) for engine in ("asr", "llm", "tts") if rng.random() < 0.3}
    for _ in range(rng.randrange(4)):  # the user pauses and goes on: what was begun meanwhile is thrown away
        now_ns += made.lasts(1500)
        made.turn.add(Stage.ASR_PARTIAL, now_ns, now_ns + made.lasts(60))
        paused_ns, now_ns = now_ns, now_ns + made.lasts(500)
        first = len(made.turn.steps)
        if rng.random() < 0.7:
            made.answer(made.silence(paused_ns))
        made.discarded |= set(range(first, len(made.turn.steps)))
    made.turn.speech_end_ns = now_ns + made.lasts(1500)
    _end(made)
    return made


def _end(made: Pipeline) -> None:
    """The last silence: what was begun in it is played once it is certain that the user has finished."""
    turn, rng = made.turn, made.rng
    assert turn.speech_end_ns is not None
    trigger = made.silence(turn.speech_end_ns)
    if rng.random() < 0.5:  # the whole silence is waited for, then the turn is answered
        judged = made.step(Stage.SMART_TURN, 60, [made.step(Stage.VAD, 1, [trigger])])
        ready = [made.answer(judged)]
    else:
        decided = made.silence(turn.speech_end_ns)
        if rng.random() < 0.3:  # the transcript has changed: begun anew
            first = len(turn.steps)
            made.answer(trigger)
            made.discarded |= set(range(first, len(turn.steps)))
            trigger = made.silence(turn.speech_end_ns)
        ready = [made.answer(trigger), decided]
    buffer = made.step(Stage.PLAYOUT_BUFFER, 200, ready)
    silence = made.step(Stage.PLAYOUT_LEADING_SILENCE, 50, [buffer])
    turn.first_audio_step, turn.first_audio_ns = silence, turn.steps[silence].end_ns
    turn.add(Stage.PLAYOUT_PLAY, turn.first_audio_ns, turn.first_audio_ns + made.lasts(5000), [silence])
    turn.describe(v.LLM, {v.MODEL: "simulated"})
