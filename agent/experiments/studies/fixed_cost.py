"""Phrases of several lengths, streamed, and the parts of their set-up."""

from agent.engine_choice import choose
from agent.errors import TurnscopeError
from agent.experiments.calibration.budget import Budget
from agent.experiments.calibration.measure_tts import measure_tts
from agent.experiments.studies.streaming import Ending
from agent.experiments.studies.study import Bench
from profiling import operations as op
from profiling.calibration import FirstAudio, Sample
from profiling.studies.finding import Finding
from profiling.studies.fixed_cost import fixed_cost_finding

_LEAST_ROUNDS = 2


def run(bench: Bench) -> Finding:
    tts = Ending(bench.tts)
    bench.tell("warming up")
    tts.warm_up()
    bench.tell("phrases of several lengths")
    budget = Budget(bench.clock, bench.budget_s)
    found = [one for _ in range(_LEAST_ROUNDS - 1) for one in measure_tts(tts, Budget(bench.clock, 0))]
    found += measure_tts(tts, budget)
    setups = [one for one in found if isinstance(one, Sample) and one.operation == op.SETUP]
    phrases = [one for one in found if isinstance(one, FirstAudio)]
    unit = "phoneme" if choose(bench.settings).tts == "piper" else "text token"
    try:
        return fixed_cost_finding(tts.model, unit, setups, phrases)
    except ValueError as error:
        raise TurnscopeError(f"The fixed cost of {tts.model} cannot be told. {error}") from None
