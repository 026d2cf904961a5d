"""Turns a Piper voice (a VITS graph, one ONNX file) into the two graphs that `agent.tts.piper` streams from.

VITS (Kim et al. 2021, https://arxiv.org/abs/2106.06103) predicts how many frames each phoneme lasts, draws a latent from a
normal distribution per frame, passes it through a flow and decodes it with HiFi-GAN. The graph is cut at that latent:

    encoder.onnx   phoneme ids -> `latent` (1, channels, frames) and `durations` (1, 1, ids), frames per phoneme id
    decoder.onnx   `latent` -> audio (1, 1, frames * hop)

The decoder has a finite receptive field, so pieces of the latent can be decoded with a little overlap. The published graph draws its
noise with nodes that take no seed, so that no phrase ever sounds the same twice; here they read a fixed table of normal noise
instead. A phrase's audio is then a pure function of its phonemes, with the noise levels that the voice was trained for.
"""

from pathlib import Path

import numpy as np
import onnx
import onnx.utils
from onnx import TensorProto, helper, numpy_helper

from agent.errors import TurnscopeError
from agent.tts.piper import DURATIONS, INPUTS, LATENT

_FIRST_DECODER_WEIGHT = "dec.conv_pre.weight"
_NOISE_VALUES = 1 << 20  # 192 channels x 5461 frames: 63 s at 86 frames a second before the table repeats
_NOISE_SEED = 0


def split_voice(source: Path, encoder: Path, decoder: Path) -> None:
    """Read the Piper voice `source` and write the two graphs. Takes about a second and needs the `onnx` package.

    Raises TurnscopeError when `source` is no ONNX model or no single-speaker Piper voice.
    """
    model = _load(source)
    graph = model.graph
    _name_tensor(graph, _latent_name(graph, source), LATENT)
    _name_tensor(graph, _only_node(graph, "Ceil", source).output[0], DURATIONS)
    _fix_noise(graph)
    graph.value_info.extend(
        [
            helper.make_tensor_value_info(LATENT, TensorProto.FLOAT, ["batch", _latent_channels(graph), "frames"]),
            helper.make_tensor_value_info(DURATIONS, TensorProto.FLOAT, ["batch", 1, "ids"]),
        ]
    )
    cut = onnx.utils.Extractor(model)
    onnx.save(cut.extract_model(list(INPUTS), [LATENT, DURATIONS]), encoder)
    onnx.save(cut.extract_model([LATENT], [graph.output[0].name]), decoder)


def _load(source: Path) -> onnx.ModelProto:
    try:
        return onnx.load(source)
    except OSError as error:
        raise TurnscopeError(f"The voice {source} cannot be read ({error.strerror}); fetch it again.") from error
    except Exception as error:  # protobuf's DecodeError is not part of its public interface
        raise TurnscopeError(f"The file {source} is no ONNX model; delete it and fetch the voice again.") from error


def _latent_name(graph: onnx.GraphProto, source: Path) -> str:
    first = [node for node in graph.node if _FIRST_DECODER_WEIGHT in node.input]
    if len(first) != 1 or {node.name for node in graph.input} != set(INPUTS):
        raise TurnscopeError(
            f"The file {source} is an ONNX model but no single-speaker Piper voice; choose such a voice."
        )
    return first[0].input[0]


def _only_node(graph: onnx.GraphProto, kind: str, source: Path) -> onnx.NodeProto:
    nodes = [node for node in graph.node if node.op_type == kind]
    if len(nodes) != 1:
        raise TurnscopeError(
            f"The Piper voice {source} has {len(nodes)} {kind} nodes where one is known; choose another voice."
        )
    return nodes[0]


def _latent_channels(graph: onnx.GraphProto) -> int:
    """The first decoder convolution's weight is (out, in, width)."""
    return next(weight.dims[1] for weight in graph.initializer if weight.name == _FIRST_DECODER_WEIGHT)


def _name_tensor(graph: onnx.GraphProto, old: str, new: str) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            for position, name in enumerate(names):
                if name == old:
                    names[position] = new


def _fix_noise(graph: onnx.GraphProto) -> None:
    """Replace each RandomNormalLike(x) by the first size(x) values of one table, in x's shape; the table repeats at its end."""
    table = np.random.RandomState(_NOISE_SEED).standard_normal(_NOISE_VALUES).astype(np.float32)  # a frozen stream
    scalars = {"noise.zero": 0, "noise.one": 1, "noise.period": _NOISE_VALUES}
    graph.initializer.append(numpy_helper.from_array(table, "noise.table"))
    graph.initializer.extend(numpy_helper.from_array(np.array(value), name) for name, value in scalars.items())
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        nodes.extend(_table_noise(node) if node.op_type == "RandomNormalLike" else [node])
    del graph.node[:]
    graph.node.extend(nodes)


def _table_noise(random: onnx.NodeProto) -> list[onnx.NodeProto]:
    like, name = random.input[0], random.output[0]
    return [
        helper.make_node("Size", [like], [f"{name}.size"]),
        helper.make_node("Range", ["noise.zero", f"{name}.size", "noise.one"], [f"{name}.position"]),
        helper.make_node("Mod", [f"{name}.position", "noise.period"], [f"{name}.index"]),
        helper.make_node("Gather", ["noise.table", f"{name}.index"], [f"{name}.values"]),
        helper.make_node("Shape", [like], [f"{name}.shape"]),
        helper.make_node("Reshape", [f"{name}.values", f"{name}.shape"], [name]),
    ]
