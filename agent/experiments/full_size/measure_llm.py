"""The language model: prefill of several lengths, and decode token by token."""

import statistics
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from agent.experiments.full_size.demands import TokenDemands, of_prefill
from agent.experiments.full_size.effort import Effort
from agent.experiments.full_size.samples import Sample
from agent.experiments.full_size.settings import Placed, load_llama
from agent.experiments.prompts import prefill, prompt
from agent.experiments.workload.laws import LlmLaw
from agent.llm.llama import LlamaEngine
from agent.llm.protocol import Prefill, Token
from profiling.trace.clock import Clock, seconds

ENGINE = "llm"


def measure_llm(path: Path, placed: Placed, effort: Effort, clock: Clock, tell: Callable[[str], None]) -> list[Sample]:
    tell("loading the language model")
    engine = load_llama(path, placed, clock)
    law = LlmLaw(path, placed.batch_tokens)
    with closing(engine):
        tell("language model: warming up")
        prefill(engine, 1, 0)
        cached = prefill(engine, 1, 1).cached_tokens or 0  # with which every prompt begins
        number = 1
        samples: list[Sample] = []
        for tokens, count in effort.llm_prompts:
            done: list[Prefill] = []
            for _ in range(count):
                number += 1
                tell(f"language model: prefill of {tokens} tokens, {len(done) + 1} of {count}")
                done.append(prefill(engine, tokens + cached, number))
            samples.append(_prefill_sample(law, done))
        tell(f"language model: {effort.llm_tokens} tokens")
        samples.append(_decode_sample(law, TokenDemands(law), _decoded(engine, effort.llm_tokens)))
    return samples


def _prefill_sample(law: LlmLaw, done: Sequence[Prefill]) -> Sample:
    tokens = done[-1].evaluated_tokens or 0
    times = tuple(seconds(one.end_ns - one.start_ns) for one in done)
    note = f"{tokens / statistics.median(times):.1f} tokens/s"
    term = law.prefill(tokens)
    return Sample(ENGINE, f"prefill of {tokens} tokens", None, times, (term,), note=note, demands=(of_prefill(term),))


def _decoded(engine: LlamaEngine, count: int) -> list[Token]:
    """Tokens after the first, which is only chosen: each of these evaluates the one before it."""
    messages = prompt(engine, 1, 0)
    items = engine.generate(messages, thinking_tokens=0, max_tokens=count + 1, should_stop=lambda: False)
    return [item for item in items if isinstance(item, Token) and item.weight_bytes]


def _decode_sample(law: LlmLaw, demands: TokenDemands, tokens: Sequence[Token]) -> Sample:
    times = tuple(seconds(token.end_ns - token.start_ns) for token in tokens)
    kv_bytes = statistics.mean(token.kv_bytes or 0 for token in tokens)
    note = (
        f"{1 / statistics.median(times):.2f} tokens/s, {law.weight_bytes / 1e9:.3f} GB of weights and "
        f"{kv_bytes / 1e6:.1f} MB of KV per token"
    )
    asked = (demands.token(kv_bytes),)
    return Sample(ENGINE, "decode of a token", None, times, (law.token(kv_bytes),), note=note, demands=asked)
