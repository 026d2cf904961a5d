"""What the machine can do at most: measured ceilings, their spread, and what disturbed their measurement."""

from profiling.machine.repeated import Ceiling, Probe, matmul_rate, probe_for, read_bandwidth

__all__ = ["Ceiling", "Probe", "matmul_rate", "probe_for", "read_bandwidth"]
