"""What a stage's time was mostly spent on, when that is certain, and otherwise how to find out."""

from collections.abc import Mapping
from dataclasses import dataclass

from profiling import operations as op
from profiling.interval import Interval

COMPUTE, BANDWIDTH, PATCH_LOOP, STEP_OVERHEAD = "compute", "bandwidth", "patch loop", "step overhead"
FIXED, CONTENTION, RESIDUAL = "fixed", "contention", "residual"
LOOP_NAMES = (PATCH_LOOP, STEP_OVERHEAD)
INCONCLUSIVE = "inconclusive"

NO_CEILING = "No ceiling is known for"
_SURE = 0.995  # of the draws
_SLACK = 1.1  # a floor so much above the time is still the ceilings' own noise: a machine drifts between two probes

_AGAIN = "`turnscope machine --again` on a quiet machine, which narrows the ceilings"
_CALIBRATE = "`turnscope calibrate`, which measures every operation with nothing beside it"
_ENGINES = "`turnscope study engines`, which runs the same model in this process, where its work is known"
_STUDY_OF = {
    op.TOKEN: "`turnscope study decode-gap`, which splits a token's time over depth, size and format",
    op.PREFILL: "`turnscope study prefill`, which separates the fixed cost of a prompt from its arithmetic",
    op.ASR_STEP: "`turnscope study finalisation`, which times the passes over chunk sizes",
    op.SETUP: "`turnscope study fixed-cost`, which holds the parts of the set-up against the constant of the law",
    op.FIRST_PATCH: "`turnscope study patch`, which times the parts of a patch and sweeps the diffusion steps",
    op.PATCH: "`turnscope study patch`, which times the parts of a patch and sweeps the diffusion steps",
}


def loop_name(operation: str) -> str:
    """The voice's steps are a patch loop; those of other engines have an overhead."""
    return PATCH_LOOP if operation.startswith("tts.") else STEP_OVERHEAD


@dataclass(frozen=True)
class Verdict:
    """`cause` is one of the shares' names, or INCONCLUSIVE; then `experiment` says what would settle it. `sentence`
    says it in plain words."""

    cause: str
    sentence: str
    experiment: str | None = None

    @property
    def conclusive(self) -> bool:
        return self.cause != INCONCLUSIVE


def verdict(
    operation: str, seconds: float, shares: Mapping[str, Interval], unknown: Mapping[str, str], lead: float
) -> Verdict:
    """The largest share, if its lower 95 % bound lies above the upper bounds of all others, the residual's size among
    them, and if it is the largest in 99.5 % of the draws: errors that move time from one share to another move both.

    `shares` by name, in seconds, RESIDUAL among them; `unknown` are sentences by the names of those not known; `lead`
    is the part of the draws in which the largest share is the largest."""
    ranked = sorted(shares, key=lambda name: -abs(shares[name].value))
    if seconds <= 0 or not set(ranked) - {RESIDUAL}:
        reason = " ".join(dict.fromkeys(unknown.values())) or "It took no time."
        return Verdict(INCONCLUSIVE, f"Nothing can be told apart. {reason}", _to_know(operation, unknown))
    floors = [shares[name] for name in (COMPUTE, BANDWIDTH) if name in shares]
    if sum(floor.low for floor in floors) > _SLACK * seconds:
        return _too_fast(100 * sum(floor.value for floor in floors) / seconds)
    largest, runner_up = ranked[0], _closest(ranked, shares)
    percent = 100 * shares[largest].value / seconds
    ahead = runner_up is None or (shares[largest].low > _upper(shares[runner_up]) and lead >= _SURE)
    if largest != RESIDUAL and ahead:
        return Verdict(largest, f"{_MEANING[largest]}: {percent:.0f} % of its time.")
    if largest == RESIDUAL or runner_up == RESIDUAL:
        return _unexplained(operation, shares[RESIDUAL], seconds, unknown)
    assert runner_up is not None
    other = 100 * shares[runner_up].value / seconds
    sentence = f"{largest} ({percent:.0f} %) and {runner_up} ({other:.0f} %) cannot be told apart."
    return Verdict(INCONCLUSIVE, sentence[0].upper() + sentence[1:], experiment(operation, largest, runner_up))


def experiment(operation: str, largest: str, runner_up: str) -> str:
    """What settles which of the two is larger."""
    pair = {largest, runner_up}
    if CONTENTION in pair:
        return f"{_CALIBRATE}, again on the machine as it is now"
    if pair == {COMPUTE, BANDWIDTH}:
        return f"{_AGAIN}, or the same run with another weight format, which moves the bytes and not the arithmetic"
    if FIXED in pair and pair & set(LOOP_NAMES):
        return "`turnscope study fixed-cost`, which separates what is paid once from what every step costs"
    return _STUDY_OF.get(operation, _CALIBRATE)


_MEANING = {
    COMPUTE: "Bound by arithmetic",
    BANDWIDTH: "Bound by reading memory",
    PATCH_LOOP: "Bound by the patch loop, serial steps whose cost is not arithmetic or reading",
    STEP_OVERHEAD: "Bound by step overhead, serial steps whose cost is not arithmetic or reading",
    FIXED: "Bound by a fixed cost",
    CONTENTION: "Slowed by the work beside it",
}


def _closest(ranked: list[str], shares: Mapping[str, Interval]) -> str | None:
    """Of all but the largest, the one whose upper bound is the highest."""
    return max(ranked[1:], key=lambda name: _upper(shares[name]), default=None)


def _upper(share: Interval) -> float:
    return max(share.high, -share.low)


def _unexplained(operation: str, residual: Interval, seconds: float, unknown: Mapping[str, str]) -> Verdict:
    percent = 100 * residual.value / seconds
    if residual.value < 0:
        sentence = (
            f"Its parts are {-percent:.0f} % longer than it took: the calibration is not of this machine's state."
        )
        return Verdict(INCONCLUSIVE, sentence, f"{_CALIBRATE}, again on the machine as it is now")
    missing = " ".join(dict.fromkeys(unknown.values()))
    sentence = f"{percent:.0f} % of the time is in none of the known parts." + (f" {missing}" if missing else "")
    return Verdict(INCONCLUSIVE, sentence, _to_know(operation, unknown))


def _too_fast(percent: float) -> Verdict:
    sentence = f"Impossible: at the measured ceilings its work takes {percent:.0f} % of the time that it took."
    return Verdict(INCONCLUSIVE, sentence, f"{_AGAIN}; a cache that answered instead is the other likely cause")


def _to_know(operation: str, unknown: Mapping[str, str]) -> str:
    """What makes the unknown shares known, else what studies the operation."""
    if NO_CEILING in unknown.get(COMPUTE, ""):
        return _AGAIN
    if COMPUTE in unknown and operation.startswith("llm."):
        return _ENGINES
    if COMPUTE not in unknown and FIXED in unknown:
        return _CALIBRATE
    return _STUDY_OF.get(operation, _CALIBRATE)
