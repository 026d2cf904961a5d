"""A Piper voice (VITS) cut at its latent: what depends on the whole phrase, and a decoder that can run patch by patch.

VITS (Kim et al. 2021, https://arxiv.org/abs/2106.06103) predicts how many frames each phoneme lasts, draws a latent
from a normal distribution per frame, passes it through a flow and decodes it with HiFi-GAN. The halves are

    encoder.onnx   phoneme ids -> `latent` [1, 192, frames] and `durations` [1, 1, ids], the frames of each phoneme id
    decoder.onnx   `latent` -> sound [1, 1, 256 * frames]

The published graph draws its noise with nodes that take no seed, so that no phrase ever sounds the same twice. Here
they read a fixed table of normal noise instead: a phrase's sound is then a pure function of its phonemes, with the
noise levels that the voice was trained for.
"""

from pathlib import Path

import numpy as np
import onnx
import onnx.utils
from onnx import TensorProto, helper, numpy_helper

from agent.models.convert import Report
from agent.models.convert.same_results import open_graph, require_same, run
from agent.tts.piper import DURATIONS, INPUTS, LATENT

_FIRST_WEIGHT = "dec.conv_pre.weight"  # of the decoder's first convolution: [out, in, width]
_NOISE_VALUES = 1 << 20  # 192 channels x 5461 frames: 63 s at 86 frames a second before the table repeats
_NOISE_SEED = 0
_TOLERANCE = 1e-4


def convert(source: Path, target: Path, report: Report) -> None:
    """Write `target`/encoder.onnx and decoder.onnx from `source`/voice.onnx, and check them against it."""
    report(0, 2, "splitting the voice at its latent")
    split(source / "voice.onnx", target)
    report(1, 2, "comparing with the unsplit voice")
    check(source / "voice.onnx", target)


def split(voice: Path, target: Path) -> None:
    """Write the two halves of `voice` as `target`/encoder.onnx (phonemes -> latent) and decoder.onnx (latent -> sound).

    Raises ValueError when the graph is no single-speaker Piper voice.
    """
    model = onnx.load(voice)
    graph = model.graph
    first = [node for node in graph.node if _FIRST_WEIGHT in node.input]
    lengths = [node for node in graph.node if node.op_type == "Ceil"]
    if len(first) != 1 or len(lengths) != 1 or {node.name for node in graph.input} != set(INPUTS):
        raise ValueError(f"{voice.name} is no single-speaker Piper voice of a known kind")
    _rename(graph, first[0].input[0], LATENT)
    _rename(graph, lengths[0].output[0], DURATIONS)
    _fix_noise(graph)
    channels = next(weight.dims[1] for weight in graph.initializer if weight.name == _FIRST_WEIGHT)
    graph.value_info.append(helper.make_tensor_value_info(LATENT, TensorProto.FLOAT, ["batch", channels, "frames"]))
    graph.value_info.append(helper.make_tensor_value_info(DURATIONS, TensorProto.FLOAT, ["batch", 1, "ids"]))
    cut = onnx.utils.Extractor(model)
    onnx.save(cut.extract_model(list(INPUTS), [LATENT, DURATIONS]), target / "encoder.onnx")
    onnx.save(cut.extract_model([LATENT], [graph.output[0].name]), target / "decoder.onnx")


def check(voice: Path, halves: Path) -> None:
    """Raise RuntimeError unless the halves sound like the unsplit voice when the noise is switched off."""
    phoneme_ids = np.arange(3, 39, dtype=np.int64)[None]
    values = {
        "input": phoneme_ids,
        "input_lengths": np.array([phoneme_ids.shape[1]], np.int64),
        "scales": np.array([0.0, 1.0, 0.0], np.float32),
    }
    whole = run(open_graph(voice), values)
    halved = run(open_graph(halves / "decoder.onnx"), run(open_graph(halves / "encoder.onnx"), values))
    require_same(whole, halved, _TOLERANCE)


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            for position, name in enumerate(names):
                if name == old:
                    names[position] = new


def _fix_noise(graph: onnx.GraphProto) -> None:
    """Replace each RandomNormalLike(x) by the first size(x) values of one table, in x's shape; at its end the table
    starts again."""
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
