"""Opening ONNX models: one place for threads, log level and the sentences that a missing or wrong file gives."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors  # pyright: ignore[reportAttributeAccessIssue]

from agent.errors import TurnscopeError

_LOG_FATAL_ONLY = 4
_LOAD_ERRORS = (
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NoModel,
    ort_errors.NoSuchFile,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
)
_profiles: ContextVar[Path | None] = ContextVar("profiles", default=None)


@contextmanager
def profiled_into(folder: Path) -> Iterator[None]:
    """Sessions opened inside write what each of their nodes did, with all shapes, into a file in `folder`, named for
    the model's file, when they are let go."""
    token = _profiles.set(folder)
    try:
        yield
    finally:
        _profiles.reset(token)


def open_session(path: Path, threads: int = 1) -> onnxruntime.InferenceSession:
    """Load an ONNX model for the CPU with `threads` threads that sleep, not spin, between two calls.

    Raises TurnscopeError when the file is missing or is not an ONNX model.
    """
    if not path.is_file():
        raise TurnscopeError(
            f"The model file {path} does not exist; `turnscope models` shows what is missing and how to fetch it."
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _LOG_FATAL_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if (profiles := _profiles.get()) is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profiles / path.stem)
        options.add_session_config_entry("session.disable_prepacking", "1")  # packed weights have no shape
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except _LOAD_ERRORS as error:
        raise TurnscopeError(
            f"The file {path} is damaged or no ONNX model; delete it and fetch the model again."
        ) from error


def check_graph(
    session: onnxruntime.InferenceSession,
    path: Path,
    inputs: Iterable[str],
    outputs: Iterable[str],
    model: str,
) -> None:
    """Make sure that the graph loaded from `path` takes exactly `inputs` and gives at least `outputs` (any order).

    `model` says in words what the file should hold. Raises TurnscopeError when it holds something else.
    """
    has_inputs = {node.name for node in session.get_inputs()}
    has_outputs = {node.name for node in session.get_outputs()}
    if has_inputs != set(inputs) or not has_outputs.issuperset(outputs):
        raise TurnscopeError(
            f"The file {path} is an ONNX model, but not {model} (its inputs are {', '.join(sorted(has_inputs)[:4])}); "
            "delete it and fetch the model again."
        )


def run(
    session: onnxruntime.InferenceSession, outputs: Sequence[str], feeds: Mapping[str, NDArray[Any]]
) -> list[NDArray[np.float32]]:
    """The named outputs, which must be float32 tensors, in their order."""
    return cast(list[NDArray[np.float32]], session.run(list(outputs), dict(feeds)))
