"""The arithmetic of ONNX Runtime: a large matrix product with floating-point numbers, and one with 8-bit integers."""

from pathlib import Path

import numpy as np

from agent.experiments.workload.names import ONNX_FLOAT32, ONNX_INT8
from agent.onnx import open_session
from agent.quiet import quiet
from agent.temporary import temporary_folder
from profiling.calibration import CPU, Rates
from profiling.machine.repeated import rates_of
from profiling.trace.clock import Clock

_ROWS, _WIDTH = 256, 1024
_REPETITIONS = 9


def onnx_rates(clock: Clock, threads: int) -> list[Rates]:
    """Operations per second, with so many threads."""
    with temporary_folder() as folder:
        plain, integer = folder / "float32.onnx", folder / "int8.onnx"
        _write(plain, integer)
        return [_rate(clock, plain, ONNX_FLOAT32, threads), _rate(clock, integer, ONNX_INT8, threads)]


def _rate(clock: Clock, path: Path, name: str, threads: int) -> Rates:
    session = open_session(path, threads)
    rows = np.random.default_rng(0).normal(size=(_ROWS, _WIDTH)).astype(np.float32)

    def once() -> object:
        return session.run(None, {"rows": rows})

    values = rates_of(clock, once, 2 * _ROWS * _WIDTH**2, _REPETITIONS)
    return Rates(name=name, unit="FLOP/s", device=CPU, threads=threads, values=values)


def _write(plain: Path, integer: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.quantization import QuantType, quantize_dynamic

    weights = np.random.default_rng(1).normal(size=(_WIDTH, _WIDTH)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["rows", "weights"], ["products"])],
        "product",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [_ROWS, _WIDTH])],
        [helper.make_tensor_value_info("products", TensorProto.FLOAT, [_ROWS, _WIDTH])],
        [numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(plain))
    with quiet():
        quantize_dynamic(plain, integer, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
