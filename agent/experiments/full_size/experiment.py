"""The whole experiment: what can be measured here, room for it, the files, engine by engine, then one turn."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent import devices, models
from agent.engine_choice import SMART_TURN_MODEL, VAD_MODEL
from agent.errors import TurnscopeError
from agent.experiments.full_size import memory, room, small_models
from agent.experiments.full_size.ceilings import Ceilings
from agent.experiments.full_size.comparison import SmallLaws
from agent.experiments.full_size.demands import TokenDemands
from agent.experiments.full_size.effort import Effort
from agent.experiments.full_size.engines import measure, model_path, recipes_of
from agent.experiments.full_size.making import Made, Recipe, find, make
from agent.experiments.full_size.packages import ASR, ENGINES, LLM, NAMES, TTS, TURN, why_not
from agent.experiments.full_size.report import FILE, Report
from agent.experiments.full_size.samples import Row, Sample, rows
from agent.experiments.full_size.settings import Placed, pipeline_settings
from agent.experiments.full_size.shapes import FULL_SIZE, Shapes
from agent.experiments.full_size.small_models import there_and_back
from agent.experiments.workload.names import FLOAT32, LLAMA_READ, Q4_0
from agent.scenario import load_scenario
from profiling.environment import BIG_LIBRARIES, LIBRARIES, Machine, versions_of
from profiling.machine import Ceiling
from profiling.machine.caches import cache_or_guess_bytes
from profiling.roofline import READ
from profiling.trace.clock import Clock, SystemClock, seconds

PHASES = (*ENGINES, TURN)
Tell = Callable[[str], None]
_EXPECTED_S = {ASR: 180, LLM: 120, TTS: 190, TURN: 190}  # on two cores of a CPU
_ON_GPU_S = 60  # each, most of it loading
_MADE_PER_S = 120e6  # bytes


@dataclass(frozen=True)
class Plan:
    """`phases` of PHASES, `device` cpu, cuda or cuda:N; the turn's run folder goes into `runs`."""

    phases: Sequence[str]
    device: str
    effort: Effort
    runs: Path
    shapes: Shapes = FULL_SIZE
    clock: Clock = field(default_factory=SystemClock)


class Experiment:
    """Looks at what can be measured; `run` measures it. `notes` are sentences about what is passed over and what runs
    elsewhere than asked for. Raises TurnscopeError when, for lack of packages, nothing is left to measure, and when
    the turn's listening models are absent."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.notes: list[str] = []
        self._phases = self._possible(plan.phases)
        if not self._phases:
            raise TurnscopeError(f"There is nothing to measure: {' '.join(self.notes)}")
        if TURN in self._phases:
            for name in (VAD_MODEL, SMART_TURN_MODEL):
                models.locate(name)
        self._placed = Placed(plan.device, Machine.this().usable_cores)
        self._llm_placed = self._placed_llm()
        self._sound: NDArray[np.float32] = load_scenario(plan.effort.turn_scenario).utterances[0].recording.samples
        engines = set(ENGINES if TURN in self._phases else self._phases)
        self._recipes = recipes_of(engines, plan.shapes, self._sound)

    def _possible(self, phases: Sequence[str]) -> list[str]:
        reasons = {engine: why_not(engine, self._plan.device) for engine in ENGINES}
        wanted = [engine for engine in ENGINES if engine in phases or TURN in phases]
        self.notes += [reason for engine in wanted if (reason := reasons[engine])]
        possible = [engine for engine in ENGINES if engine in phases and not reasons[engine]]
        if TURN in phases and any(reasons.values()):
            self.notes.append("The scripted turn needs all three engines: it is passed over.")
        return [*possible, TURN] if TURN in phases and not any(reasons.values()) else possible

    def _placed_llm(self) -> Placed:
        if self._plan.device == devices.CPU or not {LLM, TURN} & set(self._phases):
            return self._placed
        import llama_cpp

        if llama_cpp.llama_supports_gpu_offload():
            return self._placed
        self.notes.append(
            "llama-cpp-python was built without CUDA: the language model runs on the CPU; `make setup-gpu` on this "
            "machine builds it for the GPU."
        )
        return Placed(devices.CPU, self._placed.threads)

    @property
    def place(self) -> str:
        """Where it runs, in words."""
        cores = self._placed.threads
        return f"{cores} CPU cores" if self._plan.device == devices.CPU else self._plan.device

    @property
    def expected_s(self) -> float:
        """About how long `run` will take."""
        on_cpu = self._plan.device == devices.CPU
        of_phase = {p: _EXPECTED_S[p] * 2 / min(8, self._placed.threads) if on_cpu else _ON_GPU_S for p in PHASES}
        unmade = [recipe.size_bytes for those in self._recipes.values() for recipe in those if find(recipe) is None]
        return sum(of_phase[phase] for phase in self._phases) + sum(unmade) / _MADE_PER_S

    @property
    def _sizes_bytes(self) -> dict[str, int]:
        return {name: those[0].size_bytes for name, those in self._recipes.items()}

    def require_room(self) -> None:
        """Raises TurnscopeError when disk or memory do not suffice."""
        room.require_disk(self._recipes)
        room.require_memory(self._phases, self._sizes_bytes, self._plan.device)

    def run(self, tell: Tell) -> Report:
        """What `require_room` lets pass. `tell` is called with what is being done; a phase for which others have taken
        the room meanwhile is passed over."""
        began_ns = self._plan.clock.now_ns()
        sizes_bytes = self._sizes_bytes
        made = {name: self._made(name, those, tell) for name, those in self._recipes.items()}
        files = {name: those[0].folder for name, those in made.items()}
        llama_file = model_path(LLM, made[LLM][1].folder) if LLM in made else None
        ceilings = Ceilings(self._plan.clock, self._placed.threads, self._plan.effort, llama_file)
        laws = SmallLaws(cache_or_guess_bytes() if self._plan.device == devices.CPU else 0)
        found: list[Row] = []
        run_folder: Path | None = None
        for phase in self._phases:
            if shortage := room.shortage(phase, sizes_bytes, self._plan.device):
                self.notes.append(f"Passed over: {NAMES[phase]}. {shortage}")
            elif phase == TURN:
                of_turn, run_folder = self._play(files, ceilings, laws, tell)
                found += of_turn
            else:
                found += self._measure(phase, made[phase], ceilings, laws, tell)
        report = Report(
            device=self._plan.device,
            machine=Machine.this(),
            versions=versions_of((*LIBRARIES, *BIG_LIBRARIES)),
            shapes=self._plan.shapes,
            effort=self._plan.effort,
            made={name: those[0] for name, those in made.items()},
            ceilings=ceilings.all,
            laws=laws.as_json(),
            rows=found,
            notes=self.notes,
            took_s=seconds(self._plan.clock.now_ns() - began_ns),
            run_folder=run_folder,
        )
        if run_folder is not None:
            (run_folder / FILE).write_text(report.as_json(), encoding="utf-8")
        return report

    def _made(self, name: str, recipes: Sequence[Recipe], tell: Tell) -> list[Made]:
        tell(f"making {NAMES[name]}, {recipes[0].size_bytes / room.GB:.1f} GB of random weights")
        made = [make(one, lambda: tell(f"waiting for another process that makes {NAMES[name]}")) for one in recipes]
        memory.give_back()
        return made

    def _measure(self, phase: str, made: Sequence[Made], ceilings: Ceilings, laws: SmallLaws, tell: Tell) -> list[Row]:
        """The small models right before the big one. A recogniser takes half a minute to load: each of those once."""
        big, *small = (one.folder for one in made)
        folders, short = small if phase == ASR else there_and_back(small), small_models.short(self._plan.effort)
        laws.fit(*self._samples(phase, f"{phase}, small models", folders, short, ceilings, tell))
        samples, around = self._samples(phase, phase, [big], self._plan.effort, ceilings, tell)
        return laws.compare(rows(samples, around), around, alone=True)

    def _samples(
        self, phase: str, what: str, folders: Iterable[Path], effort: Effort, ceilings: Ceilings, tell: Tell
    ) -> tuple[list[Sample], dict[str, Ceiling]]:
        """Of one model after another, and the ceilings around them."""
        placed = self._llm_placed if phase == LLM else self._placed
        names = {ASR: (READ, FLOAT32), LLM: (LLAMA_READ, Q4_0), TTS: (READ, FLOAT32, self._plan.shapes.tts.dtype)}
        samples: list[Sample] = []
        tell(f"{NAMES[phase]}: the machine's ceilings")
        with ceilings.around(what, dict.fromkeys(names[phase], placed.device)) as around:
            for folder in folders:
                samples += measure(phase, folder, placed, effort, self._sound, self._plan.clock, tell)
                memory.give_back()
            tell(f"{NAMES[phase]}: the machine's ceilings once more")
        return samples, around

    def _play(
        self, files: Mapping[str, Path], ceilings: Ceilings, small_laws: SmallLaws, tell: Tell
    ) -> tuple[list[Row], Path]:
        from agent.experiments.full_size.turn import play_turn
        from agent.experiments.full_size.turn_samples import TurnLaw
        from agent.experiments.workload import laws

        plan, asr, llm = self._plan, model_path(ASR, files[ASR]), model_path(LLM, files[LLM])
        settings = pipeline_settings(asr, llm, files[TTS], self._placed, self._llm_placed, plan.effort)
        wanted: dict[str, str] = dict.fromkeys((READ, FLOAT32, plan.shapes.tts.dtype), self._placed.device)
        wanted |= dict.fromkeys((LLAMA_READ, Q4_0), self._llm_placed.device)
        tell("all three: the machine's ceilings")
        with ceilings.around(TURN, wanted) as around:
            played = play_turn(settings, plan.effort.turn_scenario, plan.runs, plan.clock, tell)
            memory.give_back()
            tell("all three: the machine's ceilings once more")
        of_llm = laws.LlmLaw(llm, self._llm_placed.batch_tokens)
        tokens = TokenDemands(of_llm)
        law = TurnLaw(laws.AsrLaw(asr), of_llm, tokens, laws.TtsLaw(files[TTS]), settings, played.alone)
        found = rows(list(law.samples(played.turn)), around)
        return small_laws.compare(found, around, alone=False), played.run_folder
