"""The work of an ONNX graph, counted from the shapes that ONNX Runtime saw while it ran."""

import gc
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from agent.onnx import profiled_into
from agent.temporary import temporary_folder
from profiling.workload import Work

_PRODUCTS = ("MatMul", "Gemm")  # and what their names are part of: FusedMatMul, DynamicQuantizeMatMul ...
_INTEGER = ("Integer", "Quantize", "QLinear")

NOTHING = Work()


@dataclass(frozen=True)
class GraphWork:
    """Of one run of a graph: with floating-point numbers, and with 8-bit integers. `bytes` are those of weights."""

    float32: Work = NOTHING
    int8: Work = NOTHING

    def __add__(self, other: "GraphWork") -> "GraphWork":
        return GraphWork(self.float32 + other.float32, self.int8 + other.int8)


def count(use: Callable[[], object]) -> dict[str, list[GraphWork]]:
    """By the stem of a model's file: the work of each of the runs that `use` makes of it, in their order.

    `use` opens the sessions (`agent.onnx.open_session`) and lets go of them before it returns. Raises OSError and
    ValueError where the temporary folder cannot hold what ONNX Runtime writes.
    """
    with temporary_folder() as folder:
        with profiled_into(folder):
            use()
        gc.collect()
        files = sorted(folder.glob("*.json"))
        return {path.name.split("_20")[0]: _runs(json.loads(path.read_text(encoding="utf-8"))) for path in files}


def _runs(events: Sequence[dict[str, Any]]) -> list[GraphWork]:
    """The nodes between the beginning and the end of each run of the model."""
    runs = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["name"] == "model_run")
    nodes = [e for e in events if e.get("cat") == "Node" and e["name"].endswith("_kernel_time")]
    return [
        sum((_of_node(node["args"]) for node in nodes if start <= node["ts"] <= end), GraphWork())
        for start, end in runs
    ]


def _of_node(node: dict[str, Any]) -> GraphWork:
    """Matrix products and convolutions; what goes element by element stays in the processor's caches."""
    operation = str(node["op_name"])
    inputs, outputs = _shapes(node["input_type_shape"]), _shapes(node["output_type_shape"])
    if any(name in operation for name in _PRODUCTS):
        flops = 2 * prod(outputs[0]) * inputs[0][-1]
    elif "ConvTranspose" in operation:
        flops = 2 * prod(inputs[0]) * prod(inputs[1][1:])
    elif "Conv" in operation:
        flops = 2 * prod(outputs[0]) * prod(inputs[1][1:])
    else:
        return GraphWork()
    work = Work(float(node["parameter_size"]), flops)
    return GraphWork(int8=work) if any(name in operation for name in _INTEGER) else GraphWork(float32=work)


def _shapes(told: Sequence[dict[str, list[int]]]) -> list[list[int]]:
    return [shape for entry in told for shape in entry.values()]
