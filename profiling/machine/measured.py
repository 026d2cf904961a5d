"""What a survey of the machine finds: ceilings and the costs of calls, each within its bounds."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from profiling.calibration import CPU, Rates
from profiling.interval import Interval

BYTES_PER_S, FLOPS_PER_S = "B/s", "FLOP/s"
FLOAT32 = "float32"


class MeasuredCeiling(Rates):
    """A rate that nothing on this device has been seen to exceed in the long run.

    `name` is what roofline.Term calls it: `read`, a number type, a weight format (`Q8_0`). `values` are the single
    measurements, `interval` what follows from them, `kernel` the library, version and instructions that were used.
    """

    interval: Interval
    kernel: str

    @classmethod
    def of_values(
        cls, name: str, unit: str, values: Sequence[float], *, kernel: str, device: str = CPU, threads: int = 1
    ) -> "MeasuredCeiling":
        """The median of repeated measurements. Raises ValueError without any."""
        return cls(
            name=name,
            unit=unit,
            device=device,
            threads=threads,
            values=tuple(values),
            interval=Interval.of_median(values),
            kernel=kernel,
        )


class Overhead(BaseModel):
    """What a step costs that has nothing to do: `each_s` seconds for one call."""

    model_config = ConfigDict(frozen=True)

    name: str
    device: str
    each_s: Interval
    kernel: str
