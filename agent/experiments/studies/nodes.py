"""A token's graph timed node by node, through llama.cpp's callback around each."""

import ctypes
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import llama_cpp as lib
from llama_cpp import _ggml

from agent.experiments.studies.opened import opened_model, opened_streams
from agent.experiments.studies.streams import Streams
from agent.experiments.studies.study import Bench
from profiling.studies.node_times import ATTENTION, OTHER, WEIGHTS, NodeTimes, kind_of
from profiling.trace.clock import NS_PER_S, Clock, seconds

_ROUNDS, _STEPS = 3, 4


class Observer:
    """Sums the time of nodes by kind. `callback` must live as long as the context that has it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._describe, self._name = _text_function("ggml_op_desc"), _text_function("ggml_get_name")
        self._start_ns = 0
        self.ns: dict[str, int] = defaultdict(int)
        self.nodes = 0
        self.callback = lib.ggml_backend_sched_eval_callback(self._called)

    def _called(self, tensor: int, asks: bool, _data: object) -> bool:
        """Before a node, whether it is wanted (else it is computed together with the next), and after a wanted one."""
        end_ns = self._clock.now_ns()
        kind = kind_of(self._describe(tensor).decode(), self._name(tensor).decode(errors="replace"))
        if asks:
            self._start_ns = self._clock.now_ns()
            return kind is not None
        self.ns[kind or OTHER] += end_ns - self._start_ns
        self.nodes += 1
        return True


def node_times(bench: Bench, path: Path, depth: int) -> NodeTimes:
    """Tokens with `depth` tokens before them, observed and not in turn."""
    model = opened_model(bench, path)
    observer = Observer(bench.clock)
    tokens = [number % model.vocab_tokens for number in range(depth)]

    def opened(watched: Observer | None) -> Streams:
        callback = watched.callback if watched else None
        return opened_streams(bench, model, 1, depth + (1 + _STEPS) * _ROUNDS, prompt_tokens=depth, callback=callback)

    with closing(model), closing(opened(None)) as plain, closing(opened(observer)) as timed:
        plain.prompt(tokens)
        timed.prompt(tokens)
        kv_bytes = model.reads.kv_bytes(depth) or 0
        plain_s, timed_s = list[float](), list[float]()
        kinds_s: dict[str, list[float]] = {WEIGHTS: [], ATTENTION: [], OTHER: []}
        for _ in range(_ROUNDS):
            plain_s += [_step_s(plain, bench.clock) for _ in range(1 + _STEPS)][1:]
            _step_s(timed, bench.clock)
            for _ in range(_STEPS):
                observer.ns.clear()
                observer.nodes = 0
                timed_s.append(_step_s(timed, bench.clock))
                for kind, each in kinds_s.items():
                    each.append(observer.ns[kind] / NS_PER_S)
    return NodeTimes(kv_bytes, observer.nodes, plain_s, timed_s, kinds_s)


def _step_s(streams: Streams, clock: Clock) -> float:
    start_ns = clock.now_ns()
    streams.step([0])
    return seconds(clock.now_ns() - start_ns)


def _text_function(name: str) -> "ctypes._NamedFuncPointer":
    function = _ggml.libggml[name]
    function.restype, function.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    return function
