"""The same prompts to the engine in this process and to a server of the same file, in pairs that take turns in coming
first; each prompt is new to both caches."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from agent.errors import TurnscopeError
from agent.experiments.calibration.budget import Budget, to_and_fro
from agent.experiments.prompts import prompt
from agent.experiments.studies.llm_file import require_file, shown_name
from agent.experiments.studies.served import served
from agent.experiments.studies.study import Bench
from agent.experiments.workload.book import LLM, PREFILL
from agent.llm.context import BATCH_TOKENS_ON_CPU, BATCH_TOKENS_ON_GPU
from agent.llm.gguf import ALL_LAYERS
from agent.llm.http import HttpLlmEngine
from agent.llm.protocol import LlmEngine, Message, Prefill, Token
from profiling.studies.engines import LOCAL, SERVED, Request, engines_finding
from profiling.studies.finding import Finding
from profiling.trace.clock import seconds

_LENGTHS = (48, 192, 96)  # tokens of a prompt
_TOKENS = 16
_LEAST_ROUNDS, _MOST_ROUNDS = 2, 40
_NOTES = (
    "Over HTTP the prefill is what is seen from here: from the request to the first event with a token, and so with "
    "the server's own work on the request.",
    "The server is llama.cpp's for Python, without its `logits_all`: what it does itself for a token (sampling, JSON, "
    "one event each) counts as its cost.",
)


def run(bench: Bench) -> Finding:
    path = require_file(bench.settings)
    local = bench.llm
    local.warm_up([])
    bench.tell("starting the server")
    with served(path, _server_settings(bench), bench.clock) as url:
        remote = HttpLlmEngine(url, clock=bench.clock, context_tokens=local.context_tokens)
        remote.warm_up([])
        bench.tell("the same prompts to both")
        requests = list(_asked(local, remote, Budget(bench.clock, bench.budget_s)))
    return engines_finding(shown_name(bench.settings), requests, _NOTES)


def _server_settings(bench: Bench) -> Mapping[str, object]:
    """What the engine in this process has."""
    llm, on_gpu = bench.settings.llm, bench.book.devices[LLM] != "cpu"
    batch = llm.batch_tokens or (BATCH_TOKENS_ON_GPU if on_gpu else BATCH_TOKENS_ON_CPU)
    return {
        "n_ctx": bench.llm.context_tokens,
        "n_threads": bench.book.threads[LLM],
        "n_threads_batch": bench.book.threads[PREFILL],
        "n_batch": batch,
        "n_ubatch": min(batch, llm.micro_batch_tokens or batch),
        "n_gpu_layers": (ALL_LAYERS if llm.gpu_layers is None else llm.gpu_layers) if on_gpu else 0,
        "logits_all": False,  # its default is to compute the output head for every token of a prompt
        "flash_attn": on_gpu if llm.flash_attention is None else llm.flash_attention,
    }


def _asked(local: LlmEngine, remote: LlmEngine, budget: Budget) -> Iterator[Request]:
    lengths = budget.interleaved(_LENGTHS, least=_LEAST_ROUNDS, most=_MOST_ROUNDS)
    for pair, (_, length) in enumerate(lengths):
        messages = prompt(local, length, pair + 1)
        for name, engine in to_and_fro(pair, [(LOCAL, local), (SERVED, remote)]):
            yield _ask(name, engine, messages, pair, length)


def _ask(name: str, engine: LlmEngine, messages: list[Message], pair: int, length: int) -> Request:
    items = list(engine.generate(messages, thinking_tokens=0, max_tokens=_TOKENS, should_stop=lambda: False))
    prefill = next((item for item in items if isinstance(item, Prefill)), None)
    tokens = [item for item in items if isinstance(item, Token)]
    if prefill is None or len(tokens) < 2:
        raise TurnscopeError(
            f"{engine.model} ended its reply after {len(tokens)} tokens {name}: study a model that writes more."
        )
    return Request(
        engine=name,
        pair=pair,
        prompt_tokens=length,
        prefill_s=seconds(prefill.end_ns - prefill.start_ns),
        first_token_s=seconds(tokens[0].end_ns - prefill.taken_ns),
        tokens_s=tuple(seconds(token.end_ns - before.end_ns) for before, token in pairwise(tokens)),
    )
