"""The table of a run: every law's prediction beside what was measured."""

from collections.abc import Iterable, Sequence

from profiling.predictions.conditions import Conditions, Measured, measure
from profiling.predictions.language_model import language_model
from profiling.predictions.prediction import Prediction
from profiling.predictions.recognition import recognition
from profiling.predictions.voice import voice
from profiling.trace.garbage import no_search_for_cycles
from profiling.trace.timeline import Turn


def predictions(turns: Iterable[Turn], conditions: Conditions) -> list[Prediction]:
    """One row for each law, in pipeline order, also where the run holds nothing of it: the note then says why."""
    return table(measure(turns, conditions), conditions)


def table(measured: Sequence[Measured], conditions: Conditions) -> list[Prediction]:
    """The same, of turns whose steps were read before."""
    with no_search_for_cycles():
        return [
            *recognition(measured, conditions),
            *language_model(measured, conditions),
            *voice(measured, conditions),
        ]
