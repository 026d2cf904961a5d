"""Moonshine's flat graphs, cut for streaming.

The encoder begins with conv1, tanh, a group norm over the whole sound, and conv2. The norm is linear but for its two
statistics, so conv2 can run before it: `conv2(norm(x)) = conv2(gamma * x) / sigma + constants`. `frontend` is what
comes before the norm: each frame depends on 511 samples only and is computed once, while the utterance grows. `encoder`
is the rest, and ends in the keys and values that the decoder's cross attention reads, so that the decoder step with a
cache serves the first step too, with an empty cache: a second copy of its weights is not needed.

Quantisation: the decoder's activations get a scale per position, so that a position's result does not depend on what is
evaluated beside it. Weights have 7 bits: without VNNI, x86 saturates sums of two 8-bit products.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, compose, helper, numpy_helper
from onnx.utils import Extractor

_CONV2 = "conv2"
_WEIGHT_LEVELS = 63  # 7 bits
_FLOAT = TensorProto.FLOAT


def split_encoder(encoder: onnx.ModelProto) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Cut the flat encoder before its group norm.

    frontend: samples [1, 192 n + 319] -> features [1, 832, n] and, over the channels of each of the 3 n + 4 frames of
    conv1, sums and squares [1, 3 n + 4]. body: features, mean [1] and deviation [1] of conv1's output -> hidden states.
    """
    graph = encoder.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes = list(graph.node)
    conv2 = next(node for node in nodes if node.op_type == "Conv" and node.input[1].startswith(_CONV2))
    tanh = next(node for node in nodes if node.op_type == "Tanh")
    shift = _maker_of(nodes, conv2.input[0])
    scale = _maker_of(nodes, shift.input[0])
    norm = next(node for node in nodes if node.op_type == "InstanceNormalization")
    gamma, beta = constants[scale.input[1]], constants[shift.input[1]]
    if (shift.op_type, scale.op_type) != ("Add", "Mul") or not np.array_equal(constants[norm.input[1]], [1.0]):
        raise ValueError("the encoder does not begin as Moonshine's does")
    weight, bias = constants[conv2.input[1]], constants[conv2.input[2]]
    scaled = weight * gamma[None]
    added = {
        "scaled_weight": scaled,
        "weight_sum": scaled.sum(axis=(1, 2), dtype=np.float64).astype(np.float32)[None, :, None],
        "offset": (bias + (weight * beta[None]).sum(axis=(1, 2), dtype=np.float64)).astype(np.float32)[None, :, None],
    }

    conv = onnx.NodeProto()
    conv.CopyFrom(conv2)
    conv.input[:] = [tanh.output[0], "scaled_weight"]
    conv.output[:] = ["features"]
    front_nodes = [
        *nodes[: nodes.index(tanh) + 1],
        conv,
        helper.make_node("ReduceSum", [tanh.output[0], "channels"], ["sums"], keepdims=0),
        helper.make_node("ReduceSumSquare", [tanh.output[0]], ["squares"], axes=[1], keepdims=0),
    ]
    frontend = _model(
        "frontend",
        front_nodes,
        [helper.make_tensor_value_info("samples", _FLOAT, [1, "samples"])],
        [
            helper.make_tensor_value_info("features", _FLOAT, [1, len(weight), "frames"]),
            helper.make_tensor_value_info("sums", _FLOAT, [1, "conv1_frames"]),
            helper.make_tensor_value_info("squares", _FLOAT, [1, "conv1_frames"]),
        ],
        constants | added | {"channels": np.array([1], np.int64)},
        {graph.input[0].name: "samples"},
    )
    body_nodes = [
        helper.make_node("Div", ["features", "deviation"], ["normed"]),
        helper.make_node("Div", ["mean", "deviation"], ["relative_mean"]),
        helper.make_node("Mul", ["relative_mean", "weight_sum"], ["mean_part"]),
        helper.make_node("Sub", ["offset", "mean_part"], ["constant_part"]),
        helper.make_node("Add", ["normed", "constant_part"], [conv2.output[0]]),
        *nodes[nodes.index(conv2) + 1 :],
    ]
    body = _model(
        "encoder",
        body_nodes,
        [
            helper.make_tensor_value_info("features", _FLOAT, [1, len(weight), "frames"]),
            helper.make_tensor_value_info("mean", _FLOAT, [1]),
            helper.make_tensor_value_info("deviation", _FLOAT, [1]),
        ],
        graph.output,
        constants | added,
    )
    return frontend, body


def with_cross_attention(body: onnx.ModelProto, decoder_first: onnx.ModelProto) -> onnx.ModelProto:
    """Append to the encoder what the decoder's first step computes from hidden states alone.

    That is the keys and values of cross attention, here named as the decoder takes them: past_key_values.N.encoder.key
    and .value.
    """
    source = onnx.ModelProto()
    source.CopyFrom(decoder_first)
    hidden = "encoder_hidden_states"
    for node in source.graph.node:  # the batch size is read off the decoder's own states: take it from the encoder's
        if node.op_type == "Shape" and node.output[0].split("/")[-2:-1] == ["encoder_attn"]:
            node.input[:] = [hidden]
    outputs = [output.name for output in source.graph.output if ".encoder." in output.name]
    projections = Extractor(source).extract_model([hidden], outputs)
    merged = compose.merge_models(
        body, compose.add_prefix(projections, "cross/"), io_map=[(body.graph.output[0].name, f"cross/{hidden}")]
    )
    names = {f"cross/{name}": name.replace("present", "past_key_values") for name in outputs}
    for node in merged.graph.node:
        node.output[:] = [names.get(name, name) for name in node.output]
    for output in merged.graph.output:
        output.name = names.get(output.name, output.name)
    del merged.opset_import[:]
    merged.opset_import.append(helper.make_opsetid("", body.opset_import[0].version))
    return merged


def quantise_by_position(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with int8 weights in its MatMuls and uint8 activations that have a scale per position (row)."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    added = {
        "step": np.array(1 / 127, np.float32),
        "least": np.array(1e-9, np.float32),
        "middle": np.array(128, np.uint8),
        "one": np.array(1, np.float32),
    }
    nodes: list[onnx.NodeProto] = []
    quantised: set[str] = set()
    for node in model.graph.node:
        weight = node.input[1] if node.op_type == "MatMul" and node.input[1] in constants else None
        if weight is None:
            nodes.append(node)
            continue
        rows, result = node.input[0], node.output[0]
        values, scale = f"{weight}.int8", f"{weight}.scale"
        if values not in added:
            added[values], added[scale] = _int8(numpy_helper.to_array(constants[weight]))
        if rows not in quantised:
            quantised.add(rows)
            nodes += _rows_to_uint8(rows)
        nodes += [
            helper.make_node(
                "MatMulIntegerToFloat",
                [f"{rows}.uint8", values, "one", scale, "middle"],
                [f"{result}.unscaled"],
                domain="com.microsoft",
            ),
            helper.make_node("Mul", [f"{result}.unscaled", f"{rows}.scale"], [result]),
        ]
    used = {name for node in nodes for name in node.input}
    kept = [tensor for name, tensor in constants.items() if name in used]
    kept += [numpy_helper.from_array(value, name) for name, value in added.items()]
    graph = helper.make_graph(nodes, model.graph.name, model.graph.input, model.graph.output, kept)
    opsets = [*model.opset_import, helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)


def _rows_to_uint8(rows: str) -> list[onnx.NodeProto]:
    """NAME.scale = max |row| / 127 and NAME.uint8 = round(row / scale) + 128."""
    return [
        helper.make_node("Abs", [rows], [f"{rows}.abs"]),
        helper.make_node("ReduceMax", [f"{rows}.abs"], [f"{rows}.max"], axes=[-1], keepdims=1),
        helper.make_node("Mul", [f"{rows}.max", "step"], [f"{rows}.max_scale"]),
        helper.make_node("Max", [f"{rows}.max_scale", "least"], [f"{rows}.scale"]),
        helper.make_node("Div", [rows, f"{rows}.scale"], [f"{rows}.levels"]),
        helper.make_node("QuantizeLinear", [f"{rows}.levels", "one", "middle"], [f"{rows}.uint8"]),
    ]


def _int8(weight: NDArray) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Values and the scale of each column."""
    scale = np.maximum(np.abs(weight).max(axis=0) / _WEIGHT_LEVELS, 1e-12).astype(np.float32)
    return np.rint(weight / scale).astype(np.int8), scale


def _maker_of(nodes: Iterable[onnx.NodeProto], value: str) -> onnx.NodeProto:
    return next(node for node in nodes if value in node.output)


def _model(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    inputs: Iterable[onnx.ValueInfoProto],
    outputs: Iterable[onnx.ValueInfoProto],
    constants: Mapping[str, NDArray],
    renamed: Mapping[str, str] | None = None,
) -> onnx.ModelProto:
    """Make a model of `nodes` and those of `constants` that they use; `renamed` inputs get another name."""
    names = renamed or {}
    copies = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [names.get(value, value) for value in node.input]
        copies.append(copy)
    used = {value for node in copies for value in node.input}
    graph = helper.make_graph(
        copies,
        name,
        list(inputs),
        list(outputs),
        [numpy_helper.from_array(np.asarray(value, order="C"), key) for key, value in constants.items() if key in used],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)
