"""The language model alone: prompts of several lengths, unknown to its KV cache, and tokens at several depths."""

from collections.abc import Iterator, Sequence

from agent.experiments.calibration.budget import Budget
from agent.experiments.prompts import prefill, prompt
from agent.llm.protocol import LlmEngine, Token
from profiling import operations as op
from profiling.calibration import Sample
from profiling.trace.clock import NS_PER_S

_LENGTHS = (16, 256, 64, 128, 32, 192)  # tokens, in an order in which a machine that slows down tilts no line
_DEPTHS = (32, 1024, 256, 512)
_TOKENS = 12  # at each depth


def measure_prefill(engine: LlmEngine, budget: Budget) -> Iterator[Sample]:
    """All lengths that fit the context, over and over while there is time; each prompt is another one."""
    lengths = _fitting(engine, _LENGTHS)
    prefill(engine, 1, 0)
    shared = prefill(engine, 1, 1).cached_tokens or 0  # every prompt begins with them
    for number, (_, tokens) in enumerate(budget.interleaved(lengths), start=2):
        done = prefill(engine, tokens + shared, number)
        if done.evaluated_tokens:
            yield Sample(
                operation=op.PREFILL,
                duration_s=(done.end_ns - done.start_ns) / NS_PER_S,
                units={op.TOKENS: float(done.evaluated_tokens)},
            )


def measure_decode(engine: LlmEngine, budget: Budget) -> Iterator[Sample]:
    """Tokens after the first, which is only chosen: each of these evaluates the one before it."""
    for number, depth in budget.interleaved(_fitting(engine, _DEPTHS)):
        for item in engine.generate(
            prompt(engine, depth, number), thinking_tokens=0, max_tokens=_TOKENS + 1, should_stop=lambda: False
        ):
            if isinstance(item, Token) and item.weight_bytes:
                yield Sample(
                    operation=op.TOKEN,
                    duration_s=(item.end_ns - item.start_ns) / NS_PER_S,
                    units={op.KV_BYTES: float(item.kv_bytes or 0)},
                )


def _fitting(engine: LlmEngine, lengths: Sequence[int]) -> list[int]:
    return [length for length in lengths if length + _TOKENS + 8 < engine.context_tokens // 2] or [lengths[0]]
