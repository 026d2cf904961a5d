"""The four laws of a voice agent's time and what follows from them, as plain functions of figures.

Times are in seconds, memory in bytes, rates in bytes, operations or tokens per second. What a function calls "least" or
"ceiling" is a bound: no machine with these rates is faster. `profiling.roofline` has intensity, ridge and ridge batch.
"""

import math

from profiling.roofline import Term
from profiling.workload import Work, decode_step, prefill

_COMPUTE = "compute"
BITS_PER_BYTE = 8
FIRST_STEPS_SKIPPED = 0.04  # of VoxCPM2's diffusion: the share of its steps that is passed over, at least one
SLOWEST_GAP_FREE = 1.0  # seconds of synthesis per second of sound


# A language model writes: every weight byte is read once per token


def weight_bytes(parameters: float, bits_per_weight: float) -> float:
    """Of a mixture of experts: of its active parameters for what a token reads, of all for what must be held."""
    return parameters * bits_per_weight / BITS_PER_BYTE


def decode_ceiling(bytes_per_s: float, weights: float, kv: float = 0.0) -> float:
    """Tokens per second of one stream, at most: bandwidth over weight bytes plus KV bytes read per token."""
    return bytes_per_s / (weights + kv)


def share_of_ceiling(tokens_per_s: float, ceiling: float) -> float:
    return tokens_per_s / ceiling


def weight_traffic(tokens_per_s: float, weights: float) -> float:
    """Bytes per second: weights times speed."""
    return weights * tokens_per_s


def beyond_reading_s(tokens_per_s: float, bytes_per_s: float, weights: float) -> float:
    """What of a token's time is not reading weights."""
    return 1 / tokens_per_s - weights / bytes_per_s


def thinking_wait_s(tokens: float, tokens_per_s: float) -> float:
    """How long so many unspoken tokens keep the listener waiting."""
    return tokens / tokens_per_s


# Several requests share the reading of the weights


def decode_step_least_s(
    batch: float, weights: float, kv: float, parameters: float, bytes_per_s: float, flops_per_s: float | None
) -> float:
    """One token for each of `batch` streams: the slower of reading the weights once and every stream's KV cache, and of
    two operations per stream and parameter (left out where the machine's rate is not known)."""
    work = Work(weights, 0) + (decode_step(0, kv, parameters) * batch)
    return _least_s(work, bytes_per_s, flops_per_s)


def kept_speed(total_tokens_per_s: float, requests: int, alone_tokens_per_s: float) -> float:
    """Which share of its speed alone each of so many simultaneous requests keeps."""
    return total_tokens_per_s / requests / alone_tokens_per_s


def most_streams(total_per_s: float, of_one_per_s: float) -> int:
    """How many streams a total rate feeds, where each needs `of_one_per_s` of it."""
    return math.floor(total_per_s / of_one_per_s * (1 + 1e-12))


# A language model reads: arithmetic


def prefill_least_s(parameters: float, tokens: float, flops_per_s: float) -> float:
    """2 P T / peak; P are the parameters without embeddings."""
    return 2 * parameters * tokens / flops_per_s


def prefill_flops_per_s(parameters: float, tokens_per_s: float) -> float:
    """The operations per second that a prefill speed means; above the machine's peak it is impossible: the prompt was
    not computed but found in a cache."""
    return 2 * parameters * tokens_per_s


def speed_lost(tokens_per_s: float, best_tokens_per_s: float) -> float:
    """To a fixed cost per request: by which share a short prompt is slower than the best."""
    return 1 - tokens_per_s / best_tokens_per_s


# Any matrix product


def matrix_product_flops_per_s(batch: int, shape: tuple[int, int], seconds: float) -> float:
    return 2 * batch * shape[0] * shape[1] / seconds


def effective_bandwidth(read_bytes: float, seconds: float) -> float:
    return read_bytes / seconds


# A voice makes patches, one after another


def patches(audio_s: float, frames_per_s: float, frames_per_patch: int) -> float:
    return audio_s * frames_per_s / frames_per_patch


def patch_s(slope: float, frames_per_s: float, frames_per_patch: int) -> float:
    """The time of one patch, from seconds of synthesis per second of sound."""
    return slope / patches(1, frames_per_s, frames_per_patch)


def synthesis_s(fixed_s: float, patch_count: float, one_patch_s: float) -> float:
    return fixed_s + patch_count * one_patch_s


def first_audio_s(fixed_s: float, first_patch_s: float) -> float:
    """Of a streamed reply, from the moment the voice gets its text."""
    return synthesis_s(fixed_s, 1, first_patch_s)


def is_gap_free(slope: float) -> bool:
    """Whether playback, once begun, never runs dry."""
    return slope < SLOWEST_GAP_FREE


def diffusion_forwards(steps: int) -> int:
    """Passes through VoxCPM2's diffusion module: the first steps are skipped. With 0 nothing but noise is made."""
    return steps - max(1, int((steps + 1) * FIRST_STEPS_SKIPPED))


# A recogniser waits for whole chunks


def chunk_s(right_context: int, frame_s: float) -> float:
    """A frame and those it looks ahead."""
    return (right_context + 1) * frame_s


def mean_chunk_wait_s(chunk: float, flushed: bool) -> float:
    """For the rest of the last chunk: none where silence is pushed at the end of speech, half a chunk otherwise."""
    return 0.0 if flushed else chunk / 2


def memory_s(left_context: int, frame_s: float) -> float:
    return left_context * frame_s


def chunk_least_s(
    frames: int, weights: float, parameters: float, bytes_per_s: float, flops_per_s: float | None
) -> float:
    """One stream's chunk: the slower of reading the weights once and of two operations per frame and parameter."""
    return _least_s(Work(weights, prefill(0, parameters, frames, 1).flops), bytes_per_s, flops_per_s)


def _least_s(work: Work, bytes_per_s: float, flops_per_s: float | None) -> float:
    return Term(work, _COMPUTE).seconds({"read": bytes_per_s, _COMPUTE: flops_per_s or math.inf})
