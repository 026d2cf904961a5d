"""What if, then do it: how often the measured latency lies inside of the interval that `turnscope what-if` stated.

A trial measures turns as they are and, between them, turns with a change made; of the former alone it is asked what the
change would make of them.
"""

import ctypes
import random
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import llama_cpp
from rich.console import Console

from agent.cli.gathering import Gathered, gather
from agent.engine_choice import choose, with_models
from agent.llm.history import new_history
from agent.llm.protocol import Message
from agent.loading import load_engines, load_llm
from agent.models.chosen import llm_file, tts_folder
from agent.settings import Settings
from agent.settings import load as load_settings
from agent.tts.piper import PiperEngine
from agent.tts.voxcpm import VoxCpmEngine
from profiling.changes.change import Change
from profiling.changes.thinking import ThinkingTokens
from profiling.changes.voice import DiffusionSteps, FirstPatchShare
from profiling.changes.weight_format import WeightFormat
from profiling.evidence import Evidence
from profiling.interval import Interval
from profiling.machine.pooling import threads_to_probe
from profiling.machine.probe import Prober, ProbeReading
from profiling.run_evidence import run_ceilings
from profiling.trace.clock import Clock, SystemClock
from profiling.trace.timeline import Turn
from profiling.what_if import what_if
from profiling.work_book import WorkBook
from tests.bench.diffusing_voice import diffusing_voice
from tests.bench.direct_turns import Line, Pipeline, settled
from tests.bench.figure import Figure, load

TRIALS = 44  # eleven of each kind
THINKING, FEWER = 16, (1, 2, 3, 4)  # tokens; no thought is over before the last of these
FORMAT, FIRST_PATCH_FRAMES, SMALLER = "Q4_0", 16, (6, 8, 10, 12)
STEPS, FEWER_STEPS = 10, (3, 4, 5, 6, 8)  # of diffusion
_PROBE_S = 0.15
_AHEAD = 2  # questions that the changed turns are before the others
_QUESTIONS = (
    "What is the capital of France?",
    "How many days are there in a week?",
    "Tell me something about the moon.",
    "Which animals live in the sea?",
    "Can you say why the sky is blue?",
)


@dataclass(frozen=True)
class _Trial:
    kind: str
    before_s: float
    stated: Interval
    measured_s: float

    @property
    def holds(self) -> bool:
        return self.stated.low <= self.measured_s <= self.stated.high

    @property
    def error(self) -> float:
        return self.stated.value / self.measured_s - 1


def foretelling(console: Console) -> Iterator[Figure]:
    settings, clock = with_models(load_settings(flags={"engines": "cpu"})), SystemClock()
    with tempfile.TemporaryDirectory() as folder:
        trials = _trials(console, settings, clock, Path(folder))
    by_kind: dict[str, list[_Trial]] = defaultdict(list)
    for trial in trials:
        by_kind[trial.kind].append(trial)
    for kind, found in by_kind.items():
        console.print(f"  {kind}: {_told(found)}", highlight=False)
    share = 100 * statistics.fmean(trial.holds for trial in trials)
    yield Figure(
        "what-if, then done", share, 85, "%", f"inside of the interval, {_told(trials)}; {load()}", at_least=True
    )


def _told(trials: Sequence[_Trial]) -> str:
    error = statistics.median(trial.error for trial in trials)
    apart = statistics.median(abs(trial.error) for trial in trials)
    width = statistics.median(trial.stated.half_width for trial in trials)
    inside = sum(trial.holds for trial in trials)
    gained = statistics.median(1 - trial.measured_s / trial.before_s for trial in trials)
    return (
        f"{inside} of {len(trials)} trials, error {error:+.1%} (without sign {apart:.1%}), "
        f"half width {width:.1%}, saved {gained:.1%}, medians"
    )


def _trials(console: Console, settings: Settings, clock: Clock, folder: Path) -> list[_Trial]:
    engines = load_engines(settings, clock, lambda what: console.print(f"  {what} …"))
    known = gather(settings, engines, clock, console, measured=True)
    console.print(f"  weights in {FORMAT} …")
    other = _requantised(settings, folder)
    opening = new_history(settings.llm).opening()
    llm, smaller_llm = (load_llm(one, choose(one), clock) for one in (settings, other))
    for engine in (llm, smaller_llm):
        engine.warm_up(opening)
    console.print("  trials …")
    pipeline = Pipeline(llm, engines.tts, clock, THINKING)
    thoughtless = replace(pipeline, thinking=FEWER[-1])
    reformatted = replace(thoughtless, llm=smaller_llm)
    others = [reformatted, *(replace(pipeline, thinking=fewer) for fewer in FEWER)]
    lines = [settled(pipeline.line([*opening, Message("user", question)]), others) for question in _QUESTIONS]
    bench = _Bench(known, clock, lines, random.Random(0))
    voices = {frames: _voice(settings, clock, frames) for frames in SMALLER}
    diffusing = replace(thoughtless, tts=diffusing_voice(folder / "voice", clock, STEPS))
    kinds: Sequence[Callable[[], _Trial]] = (
        lambda: bench.thinking(pipeline),
        lambda: bench.changed("weight format", WeightFormat(FORMAT), thoughtless, reformatted),
        lambda: bench.first_patch(pipeline, voices),
        lambda: bench.diffusion_steps(diffusing),
    )
    trials: list[_Trial] = []
    for number in range(TRIALS):
        trial = kinds[number % len(kinds)]()
        trials.append(trial)
        stated = ", ".join(f"{1000 * bound:.0f}" for bound in (trial.stated.value, trial.stated.low, trial.stated.high))
        mark = "inside" if trial.holds else "OUTSIDE"
        console.print(
            f"  {number + 1}. {trial.kind}: {1000 * trial.before_s:.0f} ms before, stated {stated}, "
            f"measured {1000 * trial.measured_s:.0f} ms: {mark}",
            highlight=False,
        )
    return trials


def _requantised(settings: Settings, folder: Path) -> Settings:
    """All matrices in the other format, as is asked, where llama.cpp would leave the output head in a larger one."""
    source, target = llm_file(settings), folder / f"{FORMAT}.gguf"
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype, parameters.allow_requantize, parameters.pure = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, True, True
    status = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.pointer(parameters))
    if status != 0:
        raise RuntimeError(f"llama.cpp cannot write {source} in {FORMAT}")
    return settings.model_copy(update={"llm": settings.llm.model_copy(update={"model": str(target)})})


def _voice(settings: Settings, clock: Clock, first_patch_frames: int) -> PiperEngine:
    name = str(settings.tts.model)
    voice = PiperEngine(
        tts_folder(settings),
        name=name,
        threads=settings.tts.threads,
        phonemizer=settings.tts.phonemizer,
        first_patch_frames=first_patch_frames,
        clock=clock,
    )
    voice.warm_up()
    return voice


class _Bench:
    def __init__(self, known: Gathered, clock: Clock, lines: Sequence[Line], chance: random.Random) -> None:
        self._known, self._clock, self._lines, self._chance = known, clock, lines, chance
        assert known.survey is not None
        counts = {threads_to_probe(known.survey, count) for count in known.book.threads.values()}
        self._probers = [Prober(threads=count) for count in sorted(counts)]
        self._turns = 0

    def thinking(self, pipeline: Pipeline) -> _Trial:
        fewer = self._chance.choice(FEWER)
        changed = replace(pipeline, thinking=fewer)
        return self.changed("fewer thinking tokens", ThinkingTokens(fewer), pipeline, changed)

    def first_patch(self, pipeline: Pipeline, voices: dict[int, PiperEngine]) -> _Trial:
        frames = self._chance.choice(SMALLER)
        changed = replace(pipeline, tts=voices[frames])
        return self.changed("smaller first patch", FirstPatchShare(frames / FIRST_PATCH_FRAMES), pipeline, changed)

    def diffusion_steps(self, pipeline: Pipeline) -> _Trial:
        """Of a voice that was not calibrated: what its patches tell of themselves is all that is known of it."""
        steps = self._chance.choice(FEWER_STEPS)
        assert isinstance(pipeline.tts, VoxCpmEngine)
        changed = replace(pipeline, tts=pipeline.tts.with_diffusion_steps(steps))
        evidence = Evidence(WorkBook(), None, {})
        return self._trial("fewer diffusion steps", DiffusionSteps(steps), *self._measure(pipeline, changed), evidence)

    def changed(self, kind: str, change: Change, pipeline: Pipeline, changed_pipeline: Pipeline) -> _Trial:
        probed = self._probe()
        turns, changed = self._measure(pipeline, changed_pipeline)
        probed += self._probe()
        book, calibration = self._known.book, self._known.calibration
        evidence = Evidence(book, calibration, run_ceilings(book, self._known.survey, calibration, probed))
        return self._trial(kind, change, turns, changed, evidence)

    def _trial(
        self, kind: str, change: Change, turns: Sequence[Turn], changed: Sequence[Turn], evidence: Evidence
    ) -> _Trial:
        stated = what_if(turns, [change], evidence).latency
        return _Trial(
            kind, stated.before, stated.after, statistics.median((turn.latency_ns or 0) / 1e9 for turn in changed)
        )

    def _measure(self, pipeline: Pipeline, changed: Pipeline) -> tuple[list[Turn], list[Turn]]:
        """Unchanged and changed turns take turns, for a machine that drifts to do so for both. No question follows
        itself: the KV cache would know it."""
        found: tuple[list[Turn], list[Turn]] = ([], [])
        for place in range(len(self._lines)):
            for turns, one, ahead in zip(found, (pipeline, changed), (0, _AHEAD), strict=True):
                self._turns += 1
                turns.append(one.turn(self._turns, self._lines[(place + ahead) % len(self._lines)]))
        return found

    def _probe(self) -> list[ProbeReading]:
        return [prober.read(self._clock, limit_s=_PROBE_S) for prober in self._probers]
