"""The whole explanation of a run on the terminal: why its stages took what they took, what would change it, and each
law's prediction beside what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from profiling.bottleneck import Attributor
from profiling.elasticity import elasticities
from profiling.evidence import Evidence
from profiling.figures import figures
from profiling.patch_loop import loop_verdicts
from profiling.predictions.conditions import Conditions
from profiling.predictions.table import predictions
from profiling.report.predictions import print_predictions
from profiling.report.style import glyphs_for
from profiling.report.why import legend, print_elasticities, print_shares, print_symptoms, print_verdicts
from profiling.symptoms import symptoms
from profiling.trace.timeline import Turn


@dataclass
class Explanation:
    """`turns` are those of the run, all of which are read once."""

    turns: Sequence[Turn]
    evidence: Evidence
    conditions: Conditions

    def __post_init__(self) -> None:
        known = self.evidence
        self._run = Attributor(self.turns, known.work_book, known.ceilings, known.calibration)

    def print_turn(self, console: Console, number: int) -> None:
        """The shares of the turn that has this place among the turns, from 0."""
        found = self._run.turn(number)
        if found:
            print_shares(console, found, 1, "why")
            console.print()

    def print_run(self, console: Console) -> None:
        glyphs = glyphs_for(console)
        found = self._run.run()
        if found:
            console.print(
                Text.assemble((f"{glyphs.rule * 2} ", "dim"), ("Why", "bold"), f" {glyphs.dot} milliseconds per turn")
            )
            print_shares(console, found, len(self.turns), "stage")
            for line in legend():
                console.print(f"  {line}", style="dim", highlight=False, soft_wrap=True)
            console.print()
            print_verdicts(console, found, loop_verdicts(self._run))
            console.print()
            print_elasticities(console, elasticities(self._run, self.turns))
            print_symptoms(console, symptoms(figures(self._run)))
            console.print()
        print_predictions(console, predictions(self.turns, self.conditions))
