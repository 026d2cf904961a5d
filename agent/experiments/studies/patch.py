"""Patches by part: of VoxCPM2 with several numbers of diffusion steps, of Piper in several sizes."""

from collections.abc import Mapping
from itertools import islice

from agent.engine_choice import choose
from agent.errors import TurnscopeError
from agent.experiments.calibration.budget import Budget
from agent.experiments.studies.study import Bench
from agent.models.chosen import tts_folder
from agent.tts.piper import FRAME_SAMPLES, PiperEngine
from agent.tts.protocol import Patch, TtsEngine
from profiling import operations as op
from profiling.calibration import Sample
from profiling.studies.finding import Finding
from profiling.studies.patch import FRAMES, Setting, patch_finding
from profiling.trace.clock import seconds

_TEXTS = (
    "There are seven days in a week, and the first of them is Monday in most of Europe, though not everywhere.",
    "The capital of France is Paris, a city on the river Seine with two million people and many bridges.",
)
_STEPS = (4, 6, 8)  # diffusion steps beside those of the settings
_FRAMES = (16, 32, 96)  # of later patches
_USUAL_FRAMES, _OVERLAP_FRAMES = 48, 12  # the engine's own
_PATCHES = 5  # of VoxCPM2, of which each costs as much as the one before
_LEAST_ROUNDS = 2


def run(bench: Bench) -> Finding:
    voxcpm = choose(bench.settings).tts == "voxcpm"
    engines = _voxcpm(bench) if voxcpm else _piper(bench)
    bench.tell("warming up")
    for engine in engines.values():
        engine.warm_up()
    bench.tell("patches, by part")
    first, settings = measure(engines, Budget(bench.clock, bench.budget_s), _PATCHES if voxcpm else None)
    model = next(iter(engines.values())).model
    if any(not setting.patches for setting in settings):
        raise TurnscopeError(f"The phrases of {model} are too short to have patches within: study another voice.")
    work = bench.book.operations.get(op.PATCH)
    return patch_finding(model, settings, first, work, 0 if voxcpm else _OVERLAP_FRAMES)


def measure(engines: Mapping[str, TtsEngine], budget: Budget, most: int | None) -> tuple[list[Sample], list[Setting]]:
    """The first patches of the first engine, and every engine's patches with another one on either side; of a phrase at
    most so many. One phrase by each in turn, again and again while there is time, at least twice."""
    first: list[Sample] = []
    inner: dict[str, list[tuple[Sample, ...]]] = {name: [] for name in engines}
    for number, (name, engine) in budget.interleaved([*engines.items()], least=_LEAST_ROUNDS):
        items = islice(engine.synthesise(_TEXTS[number % len(_TEXTS)], lambda: False), 1 + most if most else None)
        patches = [item for item in items if isinstance(item, Patch)]
        if name == next(iter(engines)):
            first += [_sample(op.FIRST_PATCH, patch, engine) for patch in patches[:1]]
        inner[name].append(tuple(_sample(op.PATCH, patch, engine) for patch in patches[1:-1]))
    return first, [Setting(name, tuple(phrases)) for name, phrases in inner.items()]


def _sample(operation: str, patch: Patch, engine: TtsEngine) -> Sample:
    units = {op.FORWARDS: patch.forwards} if patch.forwards else {FRAMES: len(patch.samples) // FRAME_SAMPLES}
    return Sample(
        operation=operation,
        duration_s=seconds(patch.end_ns - patch.start_ns),
        units=units,
        parts_s={part: seconds(ns) for part, ns in patch.parts_ns.items()},
    )


def _voxcpm(bench: Bench) -> dict[str, TtsEngine]:
    """On one loaded model, those of the settings first."""
    from agent.tts.voxcpm import VoxCpmEngine
    from agent.tts.voxcpm_checkpoint import load

    tts, path = bench.settings.tts, choose(bench.settings).tts_path
    bench.tell("loading the voice")
    library = load(tts_folder(bench.settings), bench.settings.device, compiled=tts.compiled)
    return {
        f"{steps} diffusion steps": VoxCpmEngine(
            library,
            clock=bench.clock,
            name=path.name if path else str(tts.model),
            threads=tts.threads,
            diffusion_steps=steps,
            guidance=tts.guidance,
            voice=tts.voice,
            reference_wav=tts.reference_wav,
            prompt_wav=tts.prompt_wav,
            prompt_text=tts.prompt_text,
            seed=tts.seed,
        )
        for steps in dict.fromkeys((tts.diffusion_steps, *_STEPS))
    }


def _piper(bench: Bench) -> dict[str, TtsEngine]:
    """In one size of patches each, the engine's own first."""
    tts, name = bench.settings.tts, str(bench.settings.tts.model)
    bench.tell("loading the voice")
    return {
        f"{frames} frames": PiperEngine(
            tts_folder(bench.settings),
            name=name,
            threads=tts.threads,
            clock=bench.clock,
            phonemizer=tts.phonemizer,
            patch_frames=frames,
            overlap_frames=_OVERLAP_FRAMES,
        )
        for frames in (_USUAL_FRAMES, *_FRAMES)
    }
