"""First audio of phrases that no law was fitted to, between those that one is."""

from agent.engine_choice import choose
from agent.errors import TurnscopeError
from agent.experiments.calibration.budget import Budget
from agent.experiments.calibration.measure_tts import measure_tts
from agent.experiments.studies.streaming import Ending, first_audio
from agent.experiments.studies.study import Bench
from agent.tts.protocol import TtsEngine
from profiling.calibration import FirstAudio
from profiling.evidence import Evidence
from profiling.run_evidence import RunEvidence
from profiling.studies.finding import Finding
from profiling.studies.first_audio import first_audio_finding

_NEW = (
    "Yes, of course.",
    "The train to the coast leaves at ten, from the platform behind the bridge.",
    "That sounds like a good plan.",
    "Put the flour into a bowl, make a hollow in the middle, and pour the warm milk into it while you stir.",
    "It will be cold tonight, but not before midnight.",
    "I have set a timer for twelve minutes, and I will tell you when the bread is done.",
)
_LEAST_ROUNDS = 2


def run(bench: Bench) -> Finding:
    tts = Ending(bench.tts)
    bench.tell("warming up")
    tts.warm_up()
    bench.tell("phrases to predict from, and phrases to predict")
    phrases = measure(tts, Budget(bench.clock, bench.budget_s), Budget(bench.clock, 0))
    unit = "phoneme" if choose(bench.settings).tts == "piper" else "text token"
    full_size = RunEvidence(Evidence(bench.book, None, {})).is_full_size_voxcpm2
    try:
        return first_audio_finding(tts.model, unit, phrases, full_size_voxcpm2=full_size)
    except ValueError as error:
        raise TurnscopeError(f"The first audio of {tts.model} cannot be predicted. {error}") from None


def measure(engine: TtsEngine, budget: Budget, spent: Budget) -> list[FirstAudio]:
    """In turn all phrases of the calibration, which has some to check by, and the new ones, which only check; again and
    again while there is time, at least twice. `spent` makes one round of a calibration."""
    found: list[FirstAudio] = []
    for _ in budget.rounds(least=_LEAST_ROUNDS):
        found += [one for one in measure_tts(engine, spent) if isinstance(one, FirstAudio)]
        found += [first_audio(engine, text) for text in _NEW]
    return found
