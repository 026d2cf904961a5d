"""What work must take at least: the slower of reading its bytes and computing its operations, at measured ceilings.

Source: Williams, Waterman, Patterson 2009 (the roofline model).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from profiling.workload import Work

READ = "read"  # the ceiling of reading memory; others are named for the number type or weight format they compute with
BANDWIDTH, COMPUTE = "bandwidth", "compute"


@dataclass(frozen=True, slots=True)
class Term:
    """Work that is bound by one ceiling or the other: `rate` names that of its arithmetic, `read` that of reading."""

    work: Work
    rate: str
    read: str = READ

    def __mul__(self, times: float) -> "Term":
        return Term(self.work * times, self.rate, self.read)

    def seconds(self, ceilings: Mapping[str, float]) -> float:
        """`ceilings` by name, in bytes or operations per second."""
        return max(self.reading_s(ceilings), self.computing_s(ceilings))

    def bound(self, ceilings: Mapping[str, float]) -> str:
        return BANDWIDTH if self.reading_s(ceilings) >= self.computing_s(ceilings) else COMPUTE

    def reading_s(self, ceilings: Mapping[str, float]) -> float:
        return self.work.bytes / ceilings[self.read] if self.work.bytes else 0.0

    def computing_s(self, ceilings: Mapping[str, float]) -> float:
        return self.work.flops / ceilings[self.rate] if self.work.flops else 0.0


def intensity(batch: float, bits_per_weight: float) -> float:
    """Operations per byte of a dense matrix product of so many rows: 16 B / b."""
    return 16 * batch / bits_per_weight


def ridge(flops_per_s: float, bytes_per_s: float) -> float:
    """The intensity, in operations per byte, from which on a machine is bound by arithmetic."""
    return flops_per_s / bytes_per_s


def ridge_batch(flops_per_s: float, bytes_per_s: float, bits_per_weight: float) -> float:
    """The batch from which on decoding is bound by arithmetic: ridge * b / 16."""
    return ridge(flops_per_s, bytes_per_s) * bits_per_weight / 16
