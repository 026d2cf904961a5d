"""A turn's graph with the service times that changes make of the recorded ones, evaluated in many draws at once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from profiling.changes.change import Change, Context, Service, services_of
from profiling.interval import Interval
from profiling.spread import NORMAL
from profiling.step_spread import kind_of
from profiling.trace import vocabulary as v
from profiling.trace.clock import NS_PER_S
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import KIND_OF_STAGE, Kind, Stage
from profiling.turn import described
from profiling.turn_graph import Fill, Nanoseconds, Times, TurnGraph

_TWICE = math.sqrt(2)  # what was measured and what would be measured both differ by chance

Steps = Sequence[tuple[Change, Context, Context]]


class AsRecorded(Enum):
    """A start buffer that is filled as it was."""

    AS_RECORDED = "as recorded"


AS_RECORDED = AsRecorded.AS_RECORDED


@dataclass
class Chance:
    """Normally distributed numbers, the first of each draw 0: it is the estimate itself. What is not known of the
    changes is the same in all steps and turns of a draw; what differs from one time to the next is not."""

    spreads: Mapping[str, float]
    draws: int
    seed: int
    _random: np.random.Generator = field(init=False)
    common: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self.common = self.anew()

    def anew(self) -> NDArray[np.float64]:
        numbers = self._random.standard_normal(self.draws)
        numbers[0] = 0.0
        return numbers

    def anywhere(self) -> NDArray[np.float64]:
        """Evenly distributed between 0 and 1 instead, the first in the middle."""
        numbers = self._random.random(self.draws)
        numbers[0] = 0.5
        return numbers


class Retiming:
    """`steps` are the changes in the order in which they are made, each with what explained the work before and after
    it."""

    def __init__(self, turn: Turn, steps: Steps) -> None:
        for change, before, _ in steps:
            turn = change.restructured(turn, before)
        self.graph = TurnGraph(turn)
        self.delays_partials = False
        self._steps = steps
        self._changed: dict[int, Sequence[Service]] = {}

    @property
    def kinds(self) -> set[str]:
        """Of the work and our own code that first audio depends on."""
        steps = [self.graph.turn.steps[index] for index in self.graph.before_first_audio]
        lasting = [s for s in steps if s.duration_ns and KIND_OF_STAGE.get(s.stage) is not Kind.WAIT]
        return {kind_of(services_of(step)[0]) for step in lasting}

    def times(self, chance: Chance) -> Times:
        """Of all steps that first audio depends on."""
        buffers = [i for i in self.graph.before_first_audio if self.graph.turn.steps[i].stage is Stage.PLAYOUT_BUFFER]
        fills = {index: self._fill(index) for index in buffers}
        needed = self.graph.needed_by(fill.step for fill in fills.values() if isinstance(fill, Fill))
        durations = {index: self._duration(index, chance) for index in needed}
        filled = {
            index: None if fill is None else (fill.step, self._filled_after(fill, durations[fill.step]))
            for index, fill in fills.items()
            if fill is not AS_RECORDED
        }
        times = self.graph.evaluate(durations, filled, needed)
        self.delays_partials = any(self._is_delayed_partial(index, times) for index in needed)
        return times

    def _services(self, index: int) -> Sequence[Service]:
        """Of a step, after all changes."""
        if index not in self._changed:
            step = self.graph.turn.steps[index]
            services: Sequence[Service] = services_of(step)
            for change, before, after in self._steps:
                if not services:  # a change has left nothing of the step
                    break
                services = change.retimed(step, services, self.graph.turn, before, after)
            self._changed[index] = services
        return self._changed[index]

    def _duration(self, index: int, chance: Chance) -> Nanoseconds:
        step, services = self.graph.turn.steps[index], self._services(index)
        value_s = sum(service.seconds.value for service in services)
        unknown = [service.seconds for service in services if not service.by_chance]
        by_chance = [service.seconds for service in services if service.by_chance]
        spread = chance.spreads.get(kind_of(services[0]), 0.0) if services else 0.0
        apart_s = _apart(unknown, chance.common) + _TWICE * spread * value_s * chance.anew()
        for seconds in by_chance:
            apart_s = apart_s + seconds.low - seconds.value + chance.anywhere() * (seconds.high - seconds.low)
        middle_ns = step.duration_ns + _more_ns(services_of(step), services)
        lasts = middle_ns + np.rint(apart_s * NS_PER_S).astype(np.int64)
        return lasts if self.graph.nodes[index].timer else np.maximum(lasts, 0)

    def _fill(self, buffer: int) -> Fill | AsRecorded | None:
        """What fills the buffer after all changes; None where the first patch does."""
        fill, steps = self.graph.nodes[buffer].fill, self.graph.turn.steps
        later = self._later_patches(buffer)
        if later is None or (fill is not None and fill.step != later):
            return AS_RECORDED if fill is None else fill
        recorded = 1 if fill is None else fill.number + 2
        wanted = self._patches_needed(recorded, later)
        for change, _, _ in self._steps:
            wanted = change.patches_before_sound(wanted)
        if wanted == recorded:
            return AS_RECORDED if fill is None else fill
        last = len(services_of(steps[later])) - 1
        return None if wanted <= 1 else Fill(later, min(wanted - 2, last), fill.lag_ns if fill else 0)

    def _later_patches(self, buffer: int) -> int | None:
        """The step of the patches after the first one, of the phrase that playback begins with."""
        steps = self.graph.turn.steps
        phrases = {steps[cause].phrase for cause in steps[buffer].causes}
        found = [s.index for s in steps[:buffer] if s.stage is Stage.TTS_PATCHES and s.phrase in phrases]
        return found[0] if found and v.START_TIMES_NS in steps[found[0]].attributes else None

    def _patches_needed(self, recorded: int, later: int) -> int:
        """The buffer holds as much sound as the making of a patch takes, and a margin: quicker patches, fewer of them.
        As recorded where the run's figures do not tell that."""
        turn = self.graph.turn
        buffer_s, audio_s = described(turn, v.PLAYOUT, v.PLAYOUT_BUFFER_S), described(turn, v.TTS, v.TTS_AUDIO_S)
        patches = described(turn, v.TTS, v.TTS_PATCHES)
        took_s = sum(service.seconds.value for service in services_of(turn.steps[later]))
        if not buffer_s or not audio_s or not patches or not took_s:
            return recorded
        if max(1, math.ceil(buffer_s * patches / audio_s)) != recorded:
            return recorded
        takes_s = sum(service.seconds.value for service in self._services(later))
        return max(1, math.ceil(buffer_s * takes_s / took_s * patches / audio_s))

    def _filled_after(self, fill: Fill, durations: Nanoseconds) -> Nanoseconds:
        """The step's other durations in the draws stretch the time up to the patch as well."""
        was, now = services_of(self.graph.turn.steps[fill.step]), self._services(fill.step)
        upto = fill.number + 1
        middle_ns = self.graph.filled_after_ns(fill) + _more_ns(was[:upto], now[:upto])
        if durations[0] <= 0:
            return np.full(len(durations), middle_ns, np.int64)
        return np.rint(middle_ns * (durations / durations[0])).astype(np.int64)

    def _is_delayed_partial(self, index: int, times: Times) -> bool:
        step, start = self.graph.turn.steps[index], times.starts[index]
        return step.stage is Stage.ASR_PARTIAL and start is not None and int(start[0]) > step.start_ns


def _more_ns(was: Sequence[Service], now: Sequence[Service]) -> int:
    if was == now:
        return 0
    more_s = sum(service.seconds.value for service in now) - sum(service.seconds.value for service in was)
    return round(more_s * NS_PER_S)


def _apart(seconds: Sequence[Interval], numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds from the sum of the values: the bounds of all are reached together."""
    below = sum(interval.value - interval.low for interval in seconds)
    above = sum(interval.high - interval.value for interval in seconds)
    return np.where(numbers < 0, numbers * below, numbers * above) / NORMAL
