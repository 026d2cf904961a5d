"""How long a part of the calibration may take: a slow engine is measured less often, never for longer."""

from profiling.trace.clock import NS_PER_S, Clock


class Budget:
    """Time that begins now. `spent` is asked between two measurements."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end_ns = clock.now_ns() + round(seconds * NS_PER_S)

    @property
    def spent(self) -> bool:
        return self._clock.now_ns() >= self._end_ns
