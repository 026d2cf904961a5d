"""What people notice about a slow model, why it is so, and what to do: recognised from a run's data, and from a second
run or timings over batches where it takes those."""

from collections.abc import Sequence
from dataclasses import dataclass

from profiling.figures import Figures
from profiling.verdict import BANDWIDTH

EXPECTED_LOW, EXPECTED_HIGH = 0.6, 0.8  # of the ceiling of reading the weights: what decoding reaches in practice

_IDLE = 0.3  # arithmetic in use for less than this part of the time is a low utilisation
_FASTER_PREFILL = 3.0
_SAME = 0.1  # figures within a tenth are the same
_NEW_COMPUTE = 1.3
_OFF_THE_LAW = 1.5  # times what the neighbouring batch sizes promise
_FEWER_BYTES = 0.85
_LITTLE_OF_IT = 0.5  # of the speed that fewer bytes promise
_MUCH_KV = 0.2  # of the bytes of a token


@dataclass(frozen=True)
class Symptom:
    """Three plain sentences; `name` is short."""

    name: str
    symptom: str
    cause: str
    advice: str


def symptoms(run: Figures, before: Figures | None = None, batches: Sequence[tuple[int, float]] = ()) -> list[Symptom]:
    """Those that the data show. `before` is an earlier run to compare with: of the same language model, on another
    machine or in another format (`profiling.compare` tells whether it is); `batches` are those of `batch_symptom`."""
    found = [
        _idle_yet_slow(run),
        _prefill_fast_decode_slow(run),
        _new_machine_same_speed(run, before) if before else None,
        batch_symptom(batches),
        _half_the_estimate(run),
        _quantised_no_faster(run, before) if before else None,
    ]
    return [symptom for symptom in found if symptom is not None]


def batch_symptom(batches: Sequence[tuple[int, float]], unit: str = "rows") -> Symptom | None:
    """A batch that takes far longer than a line between its neighbours allows. `batches` are (size, seconds) of the
    same weights: rows of a matrix product, or replies that get a token each; `unit` is what a size counts."""
    ordered = sorted(batches)
    for (few, few_s), (size, seconds), (many, many_s) in zip(ordered, ordered[1:], ordered[2:], strict=False):
        between_s = few_s + (many_s - few_s) * (size - few) / (many - few)
        if few > 0 and seconds > _OFF_THE_LAW * between_s:
            return Symptom(
                "small batches off the law",
                f"{size} {unit} take {1000 * seconds:.2f} ms, where {few} {'takes' if few == 1 else 'take'} "
                f"{1000 * few_s:.2f} and {many} take {1000 * many_s:.2f}.",
                "Another kernel computes batches from that size on, and it is slower for the small ones.",
                "Raise the batch, or change the path that chooses the kernel.",
            )
    return None


def _idle_yet_slow(run: Figures) -> Symptom | None:
    if run.decode_cause != BANDWIDTH or run.arithmetic_use is None or run.arithmetic_use >= _IDLE:
        return None
    return Symptom(
        "low utilisation, slow decode",
        f"Decoding uses {100 * run.arithmetic_use:.0f} % of the arithmetic, and yet it is not faster.",
        "It is bound by bandwidth: every token reads all weights, and the arithmetic waits for them.",
        "Quantise deeper, and watch the use of the bandwidth, not the utilisation.",
    )


def _prefill_fast_decode_slow(run: Figures) -> Symptom | None:
    prefill, decode = run.prefill_tokens_per_s, run.decode_tokens_per_s
    if prefill is None or decode is None or prefill < _FASTER_PREFILL * decode:
        return None
    return Symptom(
        "prefill fast, decode slow",
        f"The prompt is read at {prefill:.0f} tokens/s, the reply written at {decode:.0f} tokens/s.",
        "This is normal: the prompt is one large batch, the reply one token at a time, each reading all weights.",
        "Speculative decoding makes the batch of the reply larger.",
    )


def _new_machine_same_speed(run: Figures, before: Figures) -> Symptom | None:
    compute, bandwidth = _times(run.flops_per_s, before.flops_per_s), _times(run.bytes_per_s, before.bytes_per_s)
    speed, same_bytes = _times(before.decode_alone_s, run.decode_alone_s), _times(run.weight_bytes, before.weight_bytes)
    if compute is None or compute < _NEW_COMPUTE or run.decode_cause not in (None, BANDWIDTH):
        return None
    if not (_is_one(bandwidth) and _is_one(speed) and _is_one(same_bytes)):
        return None
    return Symptom(
        "new machine, same speed",
        f"Arithmetic is {compute:.1f} times as fast as in the run before, and decoding has the same speed.",
        "The bandwidth is the same, and that is what bounds decoding.",
        "Compare bandwidths, not FLOP/s, before a machine is chosen.",
    )


def _half_the_estimate(run: Figures) -> Symptom | None:
    speed, ceiling = run.decode_tokens_per_s, run.ceiling_tokens_per_s
    if speed is None or ceiling is None or speed >= EXPECTED_LOW * ceiling:
        return None
    kv = run.kv_bytes / run.bytes_per_token if run.kv_bytes and run.bytes_per_token else 0.0
    cause, advice = _of_half(kv, explained=speed >= EXPECTED_LOW * (1 - kv) * ceiling)
    return Symptom(
        "half the estimate",
        f"Decoding runs at {speed:.0f} tokens/s, {100 * speed / ceiling:.0f} % of what its weights alone allow.",
        cause,
        advice,
    )


def _of_half(kv: float, explained: bool) -> tuple[str, str]:
    """Cause and advice where the KV cache is the share `kv` of a token's bytes. `explained`: with the cache counted,
    the speed is what is to be expected."""
    expected = f"Expect {EXPECTED_LOW} to {EXPECTED_HIGH} of the ceiling; `turnscope study decode-gap` shows the rest."
    poor_use = "The bandwidth is not well used: time goes to something else than reading."
    long_context = f"The context is long: {100 * kv:.0f} % of the bytes of a token are KV cache"
    shorten = "Shorten the context, or quantise the KV cache."
    if kv < _MUCH_KV:
        return poor_use, expected
    if explained:
        return f"{long_context}.", shorten
    return f"{long_context}, but that is not all of it. {poor_use}", f"{shorten} {expected}"


def _quantised_no_faster(run: Figures, before: Figures) -> Symptom | None:
    fewer, smaller = _times(run.bytes_per_token, before.bytes_per_token), _times(run.weight_bytes, before.weight_bytes)
    faster, bandwidth = _times(before.decode_alone_s, run.decode_alone_s), _times(run.bytes_per_s, before.bytes_per_s)
    if fewer is None or smaller is None or faster is None or not _is_one(bandwidth):
        return None
    if fewer > _FEWER_BYTES or smaller > _FEWER_BYTES:
        return None
    promised = 1 / fewer
    if faster - 1 >= _LITTLE_OF_IT * (promised - 1):
        return None
    return Symptom(
        "quantised, but no faster",
        f"A token reads {fewer:.2f} times the bytes, which promises {promised:.2f} times the speed; "
        f"it has {faster:.2f} times.",
        "Unpacking the weights now bounds it, or a cost that the bytes do not change.",
        "Compute the intensity anew and see whether the bound moved: `turnscope study decode-gap` shows the parts.",
    )


def _times(value: float | None, other: float | None) -> float | None:
    """The one as a multiple of the other."""
    return value / other if value and other else None


def _is_one(ratio: float | None) -> bool:
    return ratio is not None and abs(ratio - 1) <= _SAME
