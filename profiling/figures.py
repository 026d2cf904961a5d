"""What a run's language model reached: its speeds, what a token has to read, and the ceilings over it."""

from dataclasses import dataclass

import numpy as np

from profiling import operations as op
from profiling.bottleneck import Attributor


@dataclass(frozen=True)
class Figures:
    """Of a run's language model; None is what its data do not tell. Bytes are those of one token: `weight_bytes` of the
    weights, `kv_bytes` of the cache. `arithmetic_use` is the part of the decode time that arithmetic at its ceiling
    would need. `decode_alone_s` is the median time of the tokens that had no other work beside them."""

    decode_alone_s: float | None
    prefill_tokens_per_s: float | None
    decode_cause: str | None
    arithmetic_use: float | None
    weight_bytes: float | None
    kv_bytes: float | None
    bytes_per_s: float | None
    flops_per_s: float | None

    @property
    def decode_tokens_per_s(self) -> float | None:
        return 1 / self.decode_alone_s if self.decode_alone_s else None

    @property
    def ceiling_tokens_per_s(self) -> float | None:
        """Of reading the weights alone, as estimates leave out the KV cache."""
        return self.bytes_per_s / self.weight_bytes if self.bytes_per_s and self.weight_bytes else None

    @property
    def bytes_per_token(self) -> float | None:
        return None if self.weight_bytes is None or self.kv_bytes is None else self.weight_bytes + self.kv_bytes


def figures(run: Attributor) -> Figures:
    """Of all turns of a run."""
    tokens = run.tables.get(op.TOKEN)
    law = run.work.get(op.TOKEN)
    decode = run.of(tokens) if tokens is not None else None
    largest = max(law.terms, key=lambda term: term.bytes.constant, default=None) if law else None
    arithmetic_s = _arithmetic_s(run)
    return Figures(
        decode_alone_s=_alone_s(run),
        prefill_tokens_per_s=_prompt_speed(run),
        decode_cause=decode.verdict.cause if decode and decode.verdict.conclusive else None,
        arithmetic_use=arithmetic_s / decode.seconds if decode and arithmetic_s is not None else None,
        weight_bytes=(sum(term.bytes.constant for term in law.terms) or None) if law else None,
        kv_bytes=_mean_kv_bytes(run),
        bytes_per_s=_ceiling(run, largest.read) if largest else None,
        flops_per_s=_ceiling(run, largest.rate) if largest else None,
    )


def _alone_s(run: Attributor) -> float | None:
    tokens = run.tables.get(op.TOKEN)
    alone = tokens.duration_s[tokens.overlap_s == 0] if tokens is not None else np.zeros(0)
    return float(np.median(alone)) if len(alone) else None


def _prompt_speed(run: Attributor) -> float | None:
    prompts = run.tables.get(op.PREFILL)
    if prompts is None or op.TOKENS not in prompts.units:
        return None
    tokens = prompts.units[op.TOKENS]
    told = tokens > 0
    seconds = float(prompts.duration_s[told].sum())
    return float(tokens[told].sum()) / seconds if seconds > 0 else None


def _mean_kv_bytes(run: Attributor) -> float | None:
    """Of the tokens that tell what they read."""
    tokens = run.tables.get(op.TOKEN)
    kv = tokens.units.get(op.KV_BYTES, np.zeros(0)) if tokens is not None else np.zeros(0)
    kv = kv[~np.isnan(kv)]
    return float(kv.mean()) if len(kv) else None


def _arithmetic_s(run: Attributor) -> float | None:
    tokens = run.tables.get(op.TOKEN)
    work = run.work_of(tokens) if tokens is not None else None
    if work is None or not work.told.all() or not work.ceilings <= set(run.ceilings):
        return None
    terms = zip(work.rates, work.flops, strict=True)
    return sum(float(flops.sum() / run.ceilings[rate][0]) for rate, flops in terms if flops.any())


def _ceiling(run: Attributor, name: str) -> float | None:
    return float(run.ceilings[name][0]) if name in run.ceilings else None
