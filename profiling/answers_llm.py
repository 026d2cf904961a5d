"""What the laws say of a language model on a machine, without a run."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from profiling import predict
from profiling.answers import Answer, NotPredictable, Rates
from profiling.catalogue import LanguageModel
from profiling.formats import bits_per_weight
from profiling.quantities import BANDWIDTH, COMPUTE, INTENSITY, MEMORY, NUMBER, SHARE, SPEED, TIME
from profiling.roofline import intensity, ridge, ridge_batch

USUAL_SHARES = (0.6, 0.8)  # of the decode ceiling, which real machines reach


@dataclass(frozen=True)
class Writing:
    """What a language model reads for a token after `context` others (`weights`, `kv` bytes), what it must hold, and
    its parameters: `active` for a token, `computed` for a prompt. `loaded` weights were measured, others follow from
    parameters and bits."""

    weights: float
    held: float | None = None
    active: float | None = None
    computed: float | None = None
    bits: float | None = None
    kv: float = 0.0
    dense: bool = True
    loaded: bool = False

    @classmethod
    def of(cls, model: LanguageModel, weight_format: str, kv: float = 0.0) -> "Writing":
        """Raises UnknownFormat."""
        found = cls.at(model, bits_per_weight(weight_format), kv)
        loaded = model.loaded_bytes(weight_format)
        return found if loaded is None else found.with_weights(loaded)

    @classmethod
    def at(cls, model: LanguageModel, bits: float, kv: float = 0.0) -> "Writing":
        active = model.active or model.parameters
        weights, held = predict.weight_bytes(active, bits), predict.weight_bytes(model.parameters, bits)
        return cls(weights, held, active, model.computed or active, bits, kv, dense=model.active is None)

    def with_weights(self, weights: float) -> "Writing":
        """As measured, not calculated. A dense model holds what it reads."""
        return replace(self, weights=weights, held=weights if self.dense else self.held, loaded=True)


@dataclass(frozen=True)
class Load:
    """What is asked of a language model, and the speeds that were measured of it, where they were."""

    prompt: float | None = None
    thinking: float | None = None
    batch: int = 1
    speed: float | None = None
    total_speed: float | None = None
    prefill_speed: float | None = None


def of_language_model(model: Writing, rates: Rates, load: Load) -> Iterator[Answer]:
    """Raises NotPredictable without a bandwidth."""
    if rates.bytes_per_s is None:
        raise NotPredictable("A language model's speed depends on the bandwidth: give --machine or --bandwidth.")
    ceiling = predict.decode_ceiling(rates.bytes_per_s, model.weights, model.kv)
    law = "as loaded, or as given" if model.loaded else "parameters that a token uses x bits / 8"
    yield Answer("weights read per token", model.weights, MEMORY, law)
    if model.kv:
        yield Answer("KV cache read per token", model.kv, MEMORY, "keys and values of the context, by layer")
    if model.held is not None:
        yield Answer("memory for the weights", model.held, MEMORY, law if model.dense else "all parameters x bits / 8")
    yield Answer("decode, at most", ceiling, SPEED, "bandwidth / (weights + KV)")
    yield Answer("one token, at least", 1 / ceiling, TIME, "(weights + KV) / bandwidth")
    if load.speed is None:
        low, high = (share * ceiling for share in USUAL_SHARES)
        yield Answer("decode, usually", low, SPEED, f"{USUAL_SHARES[0]} to {USUAL_SHARES[1]} of the ceiling", to=high)
    else:
        yield from _measured_decode(model, rates.bytes_per_s, ceiling, load.speed)
    if load.thinking is not None:
        measured = load.speed is not None and load.speed <= ceiling
        speed, bound = (load.speed, "") if measured and load.speed else (ceiling, ", at least")
        wait_s = predict.thinking_wait_s(load.thinking, speed)
        yield Answer(f"wait for {load.thinking:,.0f} thinking tokens{bound}", wait_s, TIME, "tokens / speed")
    yield from _batch(model, rates, load, ceiling)
    yield from _prompt(model, rates, load)


def _measured_decode(model: Writing, bytes_per_s: float, ceiling: float, speed: float) -> Iterator[Answer]:
    share = predict.share_of_ceiling(speed, ceiling)
    why = "more bytes than the machine can read: wrong token count, bandwidth or weights" if share > 1 else ""
    yield Answer("one token, as measured", 1 / speed, TIME, "1 / speed")
    yield Answer("share of the ceiling", share, SHARE, "speed / ceiling", impossible=why)
    yield Answer("weights x speed", predict.weight_traffic(speed, model.weights), BANDWIDTH, "bytes read per second")
    rest_s = predict.beyond_reading_s(speed, bytes_per_s, model.weights)
    if rest_s > 0:
        yield Answer("of a token, no weight reads", rest_s, TIME, "1 / speed - weights / bandwidth")


def _batch(model: Writing, rates: Rates, load: Load, ceiling: float) -> Iterator[Answer]:
    if model.bits is not None:
        yield Answer(f"intensity, batch {load.batch}", intensity(load.batch, model.bits), INTENSITY, "16 B / b")
    if rates.bytes_per_s is not None and rates.flops_per_s is not None:
        machine_ridge = ridge(rates.flops_per_s, rates.bytes_per_s)
        yield Answer("ridge of the machine", machine_ridge, INTENSITY, "peak / bandwidth; below it bandwidth decides")
        if model.bits is not None and model.dense:
            batch = ridge_batch(rates.flops_per_s, rates.bytes_per_s, model.bits)
            yield Answer("batch from which arithmetic decides", batch, NUMBER, "ridge x b / 16")
    if load.batch > 1 and rates.bytes_per_s is not None and model.active is not None:
        step_s = predict.decode_step_least_s(
            load.batch, model.weights, model.kv, model.active, rates.bytes_per_s, rates.flops_per_s
        )
        yield Answer(f"{load.batch} requests together, at most", load.batch / step_s, SPEED, "weights are read once")
        yield Answer("speed that each keeps, at most", 1 / step_s / ceiling, SHARE, "its speed / speed alone")
    if load.total_speed is not None and load.speed is not None:
        kept = predict.kept_speed(load.total_speed, load.batch, load.speed)
        why = "a request among others is not faster than alone: wrong count or time" if kept > 1 else ""
        yield Answer("speed that each keeps, as measured", kept, SHARE, "total / requests / alone", impossible=why)


def _prompt(model: Writing, rates: Rates, load: Load) -> Iterator[Answer]:
    if load.prompt is not None and model.computed is not None and rates.flops_per_s is not None:
        least_s = predict.prefill_least_s(model.computed, load.prompt, rates.flops_per_s)
        name = f"prefill of {load.prompt:,.0f} tokens, at least"
        yield Answer(name, least_s, TIME, "2 P T / peak, and a fixed cost per request")
    if load.prefill_speed is None:
        return
    if load.prompt is not None:
        name = f"prefill of {load.prompt:,.0f} tokens, as measured"
        yield Answer(name, load.prompt / load.prefill_speed, TIME, "tokens / speed")
    if model.computed is None:
        return
    used = predict.prefill_flops_per_s(model.computed, load.prefill_speed)
    yield Answer("arithmetic of that prefill", used, COMPUTE, "2 P x speed")
    if rates.flops_per_s is not None:
        share = used / rates.flops_per_s
        why = "more than the machine can compute: a prefix cache has answered" if share > 1 else ""
        yield Answer("share of the peak", share, SHARE, "2 P x speed / peak", impossible=why)
