"""What the laws say of a voice and of a recogniser on a machine, without a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from profiling import predict
from profiling.answers import Answer, NotPredictable, Rates
from profiling.catalogue import Recogniser, Voice
from profiling.formats import bits_per_weight
from profiling.quantities import COUNT, NUMBER, SECONDS, TIME, Dimension


@dataclass(frozen=True)
class Speaking:
    """What is asked of a voice; `fixed_s` and `patch_s` are measured ones in place of those published."""

    audio_s: float = 1.0
    diffusion_steps: int | None = None
    fixed_s: float | None = None
    patch_s: float | None = None


def of_voice(voice: Voice, rates: Rates, asked: Speaking) -> Iterator[Answer]:
    """With other diffusion steps than measured, a range: from all of a patch's time being theirs to none.

    Raises NotPredictable where the steps make nothing but noise.
    """
    steps = voice.diffusion_steps if asked.diffusion_steps is None else asked.diffusion_steps
    forwards, usual = predict.diffusion_forwards(steps), predict.diffusion_forwards(voice.diffusion_steps)
    if forwards < 1:
        raise NotPredictable(f"Of {steps} diffusion steps none is computed, so only noise is made: give 2 or more.")
    fixed_s = voice.fixed_s if asked.fixed_s is None else asked.fixed_s
    measured_s = asked.patch_s or predict.patch_s(voice.slope, voice.frames_per_s, voice.frames_per_patch)
    low_s, high_s = sorted((measured_s, measured_s * forwards / usual))

    def ranged(what: str, bounds: Sequence[float], dimension: Dimension, law: str) -> Answer:
        return Answer(what, bounds[0], dimension, law, bounds[1] if bounds[1] > bounds[0] else None)

    count = predict.patches(asked.audio_s, voice.frames_per_s, voice.frames_per_patch)
    patch_audio_s = asked.audio_s / count
    law = "published slope / patches per second" if asked.patch_s is None else "as given"
    yield Answer(f"patches in {SECONDS.shown(asked.audio_s)} of sound", count, NUMBER, "seconds x frames / patch")
    yield Answer("passes through the diffusion module", forwards, COUNT, "the first steps are skipped")
    yield ranged("one patch", (low_s, high_s), TIME, law)
    yield Answer("one diffusion step, at most", measured_s / voice.diffusion_steps, TIME, "patch / steps")
    first = [predict.first_audio_s(fixed_s, each) for each in (low_s, high_s)]
    yield ranged("first audio, streamed", first, TIME, "fixed + one patch")
    whole = [predict.synthesis_s(fixed_s, count, each) for each in (low_s, high_s)]
    yield ranged("first audio, not streamed", whole, TIME, "fixed + patches x patch")
    yield ranged("real-time factor", [each / asked.audio_s for each in whole], NUMBER, "synthesis / sound")
    slopes = low_s / patch_audio_s, high_s / patch_audio_s
    yield ranged(f"slope: {_gaps(slopes)}", slopes, NUMBER, "patch / its sound; below 1 is gap-free")
    if rates.bytes_per_s is not None:
        read = voice.patch_bytes + forwards * voice.forward_bytes
        yield Answer("one patch, at least", read / rates.bytes_per_s, TIME, "bytes of a patch / bandwidth")


def _gaps(slopes: Sequence[float]) -> str:
    verdicts = {predict.is_gap_free(slope) for slope in slopes}
    return "gap-free or not" if len(verdicts) == 2 else "gap-free" if True in verdicts else "playback runs dry"


def of_recogniser(recogniser: Recogniser, rates: Rates, chunk_s: float | None, weight_format: str) -> Iterator[Answer]:
    """For one chunk, or for all that the model was trained for. Raises NotPredictable for another chunk."""
    if rates.flops_per_s is not None:
        of_one = predict.prefill_flops_per_s(recogniser.encoder_parameters, 1 / recogniser.frame_s)
        streams = predict.most_streams(rates.flops_per_s, of_one)
        yield Answer("streams together, at most", streams, COUNT, "peak / (2 P frames per second)")
    memory_s = predict.memory_s(recogniser.left_context, recogniser.frame_s)
    yield Answer("memory", memory_s, SECONDS, "left context x frame")
    chunks = {right: predict.chunk_s(right, recogniser.frame_s) for right in recogniser.contexts}
    asked = {right: chunk for right, chunk in chunks.items() if chunk_s is None or abs(chunk - chunk_s) < 1e-6}
    if not asked:
        known = ", ".join(f"{chunk * 1000:.0f}" for chunk in chunks.values())
        raise NotPredictable(f"{recogniser.what} was trained for chunks of {known} ms: give one of these.")
    for right, chunk in asked.items():
        yield from _of_chunk(recogniser, rates, right, chunk, weight_format)


def _of_chunk(recogniser: Recogniser, rates: Rates, right: int, chunk_s: float, weight_format: str) -> Iterator[Answer]:
    frames, parameters = right + 1, recogniser.encoder_parameters
    weights = predict.weight_bytes(parameters, bits_per_weight(weight_format))
    yield Answer(f"chunk [{recogniser.left_context}, {right}]", chunk_s, TIME, "(right context + 1) x frame")
    yield Answer("  mean wait, unflushed", predict.mean_chunk_wait_s(chunk_s, False), TIME, "chunk / 2")
    yield Answer("  wait, flushed", predict.mean_chunk_wait_s(chunk_s, True), TIME, "silence is pushed, not awaited")
    if rates.bytes_per_s is not None:
        least_s = predict.chunk_least_s(frames, weights, parameters, rates.bytes_per_s, rates.flops_per_s)
        reads = weights / rates.bytes_per_s >= least_s
        law = "weights / bandwidth, which decides" if reads else "2 P frames / peak, which decides"
        yield Answer("  compute, one stream, at least", least_s, TIME, law)
