"""The whole explanation of a run on the terminal: why its stages took what they took, what would change it, and each
law's prediction beside what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from profiling.bottleneck import Attributor
from profiling.elasticity import elasticities
from profiling.evidence import Evidence
from profiling.figures import Figures, figures
from profiling.impossibilities import impossible_among
from profiling.patch_loop import loop_verdicts
from profiling.predictions.conditions import Conditions, measure
from profiling.predictions.table import table
from profiling.report.predictions import print_predictions
from profiling.report.style import glyphs_for
from profiling.report.why import (
    legend,
    print_elasticities,
    print_impossible,
    print_shares,
    print_symptoms,
    print_verdicts,
    unjudged,
)
from profiling.symptoms import symptoms
from profiling.trace.timeline import Turn


@dataclass
class Explanation:
    """`turns` are those of the run, all of which are read once. What is `impossible` in them is left out of all that is
    summed up."""

    turns: Sequence[Turn]
    evidence: Evidence
    conditions: Conditions

    def __post_init__(self) -> None:
        known, of_run = self.evidence, self.conditions
        measured = measure(self.turns, of_run)
        read = (one.readings for one in measured)
        self.impossible = impossible_among(read, of_run.ceilings, of_run.surroundings)
        self._predictions = table(measured, of_run)
        del measured  # of a long run, as much as all that follows
        self._run = Attributor(
            self.turns, known.work_book, known.ceilings, known.calibration, impossible=self.impossible
        )

    def print_turn(self, console: Console, number: int) -> None:
        """The shares of the turn that has this place among the turns, from 0, and what in it is impossible."""
        found, refused = self._run.turn(number), self.impossible.of(number)
        if found or refused:
            print_shares(console, found, lambda _: 1, "why", unjudged(self.turns[number], refused))
            print_impossible(console, self.turns[number], refused)
            console.print()

    def figures(self) -> Figures:
        """What the run's language model reached."""
        return figures(self._run)

    def print_run(self, console: Console, before: Figures | None = None) -> None:
        """`before` is what the same language model reached in an earlier run, where there is one to compare with."""
        glyphs = glyphs_for(console)
        found = self._run.run()
        if found:
            console.print(
                Text.assemble((f"{glyphs.rule * 2} ", "dim"), ("Why", "bold"), f" {glyphs.dot} milliseconds per turn")
            )
            print_shares(console, found, self._run.turns_of, "stage")
            for line in legend():
                console.print(f"  {line}", style="dim", highlight=False, soft_wrap=True)
            console.print()
            print_verdicts(console, found, loop_verdicts(self._run))
            console.print()
            print_elasticities(console, elasticities(self._run, self.turns))
            print_symptoms(console, symptoms(self.figures(), before))
            console.print()
        print_predictions(console, self._predictions)
