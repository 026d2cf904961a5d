"""An operation's time as it was calibrated, with how far single measurements lie from the law."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profiling.calibration import Calibration
from profiling.fit import Fit
from profiling.interval import Interval
from profiling.spread import of_median, spread

ENOUGH = 6  # measurements


@dataclass(frozen=True)
class Batch:
    """`count` operations in a row; `units` are means over them."""

    units: Mapping[str, float]
    count: int = 1


@dataclass(frozen=True)
class OperationLaw:
    """`spread` is the standard deviation of measured over fitted."""

    fit: Fit
    spread: float

    def interval_at(self, figures: Sequence[Sequence[Batch]], divide_by: Sequence[float] | None = None) -> Interval:
        """Of the median over figures, each the time of some batches together (divided by so much).

        The spread between measurements is in it as far as a median over so many figures keeps it. Raises ValueError
        without any figure.
        """
        if not figures:
            raise ValueError("no figures")
        rows = np.array([np.sum([self._row(batch) for batch in batches], axis=0) for batches in figures])
        rows = rows / np.array(divide_by if divide_by is not None else [1.0] * len(figures))[:, None]
        middle = [self.fit.constant.value, *(self.fit.coefficients[name].value for name in self.fit.names)]
        apart = self.spread * of_median(len(figures))
        shares = 1 + apart * np.random.default_rng(0).standard_t(max(1, self.fit.n - 1), len(self.fit.draws))
        values = np.median(self.fit.draws @ rows.T, axis=1) * shares
        return Interval.of_draws(float(np.median(rows @ np.array(middle))), list(map(float, values)), self.fit.n)

    def at(self, batches: Sequence[Batch]) -> float:
        """The time of some batches together."""
        return sum(
            batch.count * self.fit.constant.value
            + sum(
                batch.count * batch.units.get(name, 0.0) * self.fit.coefficients[name].value for name in self.fit.names
            )
            for batch in batches
        )

    def _row(self, batch: Batch) -> list[float]:
        return [float(batch.count), *(batch.count * batch.units.get(name, 0.0) for name in self.fit.names)]


def operation_law(calibration: Calibration | None, operation: str) -> OperationLaw | None:
    """None where it was not measured six times."""
    samples = calibration.of(operation) if calibration else []
    law = calibration.law(operation) if calibration else None
    if law is None or len(samples) < ENOUGH:
        return None
    fitted = np.array([law.at(sample.units) for sample in samples])
    if (fitted <= 0).any():
        return None
    return OperationLaw(law, spread(np.array([sample.duration_s for sample in samples]) / fitted))
