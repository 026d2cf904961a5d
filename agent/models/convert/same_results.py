"""Checks that a converted graph computes what its original computes."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

Values = Mapping[str, NDArray]


def open_graph(model: Path | onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Load a graph from a file (.onnx or .ort) or from memory."""
    content = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def run(session: onnxruntime.InferenceSession, values: Values) -> dict[str, NDArray]:
    """Run the graph on those of `values` that it takes; return its outputs by name."""
    taken = {node.name: values[node.name] for node in session.get_inputs()}
    names = [node.name for node in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(names, taken)), strict=True))


def require_same(original: Values, converted: Values, tolerance: float) -> None:
    """Raise RuntimeError where an output of the converted graph is more than `tolerance` away from the original's."""
    for name, value in converted.items():
        if value.shape != original[name].shape:
            raise RuntimeError(f"{name} has the shape {value.shape} where the original has {original[name].shape}")
        difference = float(np.abs(value - original[name]).max())
        if not difference <= tolerance:
            raise RuntimeError(f"{name} differs from the original by {difference:.1e}")
