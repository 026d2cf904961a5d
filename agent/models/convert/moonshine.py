"""Moonshine's packed ONNX Runtime graphs to flat graphs that stream, with int8 matrix products.

The published .ort graphs hold each weight as int8 and unpack it (Cast, Mul, Add) at every call, and keep both decoder
steps, with and without a cache, in the two branches of one If: 40-80 ms a token. Here every weight is unpacked once
and the branches become graphs of their own; `moonshine_streaming` cuts these for streaming and quantises them.
The embedding table stays packed: only the rows that are looked up are unpacked.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from agent.asr.moonshine_sound import HOP, WINDOW, Frontend, Sound
from agent.models.convert import Report
from agent.models.convert.moonshine_streaming import quantise_by_position, split_encoder, with_cross_attention
from agent.models.convert.same_results import open_graph, require_same, run

_OPSET = 14
_IR_VERSION = 9
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Packed:
    """A weight as the .ort graph holds it: int8 `values`, and the `scale` and `offset` that make it float32."""

    values: NDArray[np.int8]
    scale: NDArray[np.float32]
    offset: NDArray[np.float32]

    def unpack(self) -> NDArray[np.float32]:
        return self.values.astype(np.float32) * self.scale + self.offset


def convert(source: Path, target: Path, report: Report) -> None:
    """Write frontend.onnx, encoder.onnx and decoder.onnx into `target`; until they are quantised, each is compared with
    `source`'s .ort graphs. Their inputs and outputs are those of `moonshine_streaming`."""
    encoder_ort, decoder_ort = source / "encoder_model.ort", source / "decoder_model_merged.ort"
    report(0, 6, "unpacking the encoder")
    encoder = flat_encoder(read_ort(encoder_ort, target))
    check_encoder(encoder_ort, encoder)
    report(1, 6, "unpacking the decoder")
    merged = read_ort(decoder_ort, target)
    first = flat_decoder(merged, with_cache=False)
    check_decoder(decoder_ort, first, with_cache=False)
    report(2, 6, "cutting the encoder for streaming")
    frontend, body = split_encoder(encoder)
    onnx.save(frontend, target / "frontend.onnx")
    body = with_cross_attention(body, first)
    check_streaming(encoder, first, target / "frontend.onnx", body)
    del encoder, first, frontend
    report(3, 6, "quantising the encoder")
    quantise(body, target / "encoder.onnx")
    del body
    report(4, 6, "unpacking the decoder's cached step")
    decoder = flat_decoder(merged, with_cache=True)
    check_decoder(decoder_ort, decoder, with_cache=True)
    report(5, 6, "quantising the decoder")
    onnx.save(quantise_by_position(decoder), target / "decoder.onnx")


def read_ort(path: Path, scratch: Path) -> onnx.ModelProto:
    """Read an .ort graph as ONNX. ONNX Runtime does it by way of a file, which lies in `scratch` meanwhile."""
    translated = scratch / f"{path.stem}.translated.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(translated)
    options.add_session_config_entry("session.save_model_format", "ONNX")
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    model = onnx.load(translated)
    translated.unlink()
    return model


def flat_encoder(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with its weights unpacked to float32."""
    graph = model.graph
    constants = _constants(graph)
    return _assemble(
        "encoder", list(graph.node), graph.input, graph.output, constants, packed_weights(graph.node, constants)
    )


def flat_decoder(model: onnx.ModelProto, with_cache: bool) -> onnx.ModelProto:
    """Return one branch of the merged decoder's If as a graph: the step that has a cache or the one that fills it.

    The step that has a cache gives no keys and values of the encoder: it would only hand back what it was given.
    """
    graph = model.graph
    choices = [node for node in graph.node if node.op_type == "If"]
    if len(choices) != 1:
        raise ValueError(f"expected one If in the merged decoder, found {len(choices)}")
    branches = {attribute.name: attribute.g for attribute in choices[0].attribute}
    branch = branches["then_branch" if with_cache else "else_branch"]
    names = {inner.name: outer for inner, outer in zip(branch.output, choices[0].output, strict=True)}
    nodes = [_renamed(node, names) for node in branch.node]
    outputs = [output for output in graph.output if not (with_cache and ".encoder." in output.name)]
    constants = _constants(graph)
    packed = packed_weights(graph.node, constants)
    return _assemble("decoder", nodes, graph.input, outputs, constants | _constants(branch), packed)


def packed_weights(nodes: Iterable[onnx.NodeProto], constants: Mapping[str, NDArray]) -> dict[str, Packed]:
    """Find every chain Cast(int8) -> Mul -> Add over constants; return what it unpacks, by the name of its result."""
    made_by = {node.output[0]: node for node in nodes}
    packed = {}
    for name, add in made_by.items():
        multiply = made_by.get(add.input[0]) if add.op_type == "Add" else None
        cast = made_by.get(multiply.input[0]) if multiply is not None and multiply.op_type == "Mul" else None
        if multiply is None or cast is None or cast.op_type != "Cast":
            continue
        leaves = (cast.input[0], multiply.input[1], add.input[1])
        if all(leaf in constants for leaf in leaves) and constants[leaves[0]].dtype == np.int8:
            packed[name] = Packed(*(constants[leaf] for leaf in leaves))
    return packed


def check_encoder(original: Path, flat: onnx.ModelProto) -> None:
    """Raise RuntimeError unless `flat`, not yet quantised, encodes a second of noise as `original` does."""
    values = {"input_values": np.random.default_rng(0).normal(0, 0.1, (1, 16_000)).astype(np.float32)}
    require_same(run(open_graph(original), values), run(open_graph(flat), values), _TOLERANCE)


def check_decoder(original: Path, flat: onnx.ModelProto, with_cache: bool) -> None:
    """Raise RuntimeError unless `flat`, not yet quantised, decodes like `original`: three tokens, or one after them."""
    merged = open_graph(original)
    shapes = {node.name: node.shape for node in merged.get_inputs()}
    hidden_size = shapes["encoder_hidden_states"][-1]
    values = {
        "input_ids": np.array([[1, 2, 3]], np.int64),
        "encoder_hidden_states": np.random.default_rng(0).normal(size=(1, 40, hidden_size)).astype(np.float32),
        "use_cache_branch": np.array([False]),
    }
    caches = [name for name in shapes if name.startswith("past_key_values.")]
    values |= {name: np.zeros((1, shapes[name][1], 1, shapes[name][3]), np.float32) for name in caches}
    expected = run(merged, values)
    if with_cache:
        values |= {name: expected[name.replace("past_key_values", "present")] for name in caches}
        values |= {"input_ids": np.array([[4]], np.int64), "use_cache_branch": np.array([True])}
        expected = run(merged, values)
    require_same(expected, run(open_graph(flat), values), _TOLERANCE)


def check_streaming(encoder: onnx.ModelProto, first: onnx.ModelProto, frontend: Path, body: onnx.ModelProto) -> None:
    """Raise RuntimeError unless front end and body give the decoder what the flat encoder and first step give it."""
    samples = np.random.default_rng(0).normal(0, 0.1, 80 * HOP + WINDOW - HOP).astype(np.float32)
    hidden = run(open_graph(encoder), {"input_values": samples[None]})["last_hidden_state"]
    expected = run(open_graph(first), {"input_ids": np.array([[1]], np.int64), "encoder_hidden_states": hidden})
    sound = Sound(Frontend(frontend, threads=1))
    sound.push(samples)
    streamed = run(open_graph(body), sound.inputs())
    require_same(
        {name.replace("present", "past_key_values"): expected[name] for name in expected}, streamed, _TOLERANCE
    )


def quantise(model: onnx.ModelProto, path: Path) -> None:
    """Write `model` with its MatMuls quantised: weights of 7 bits, one scale per column, activations as they come."""
    quantize_dynamic(
        model,
        path,
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul"],
        extra_options={"MatMulConstBOnly": True},
    )


def _constants(graph: onnx.GraphProto) -> dict[str, NDArray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    renamed = onnx.NodeProto()
    renamed.CopyFrom(node)
    renamed.input[:] = [names.get(name, name) for name in node.input]
    renamed.output[:] = [names.get(name, name) for name in node.output]
    return renamed


def _assemble(
    name: str,
    nodes: list[onnx.NodeProto],
    inputs: Iterable[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: dict[str, NDArray],
    packed: Mapping[str, Packed],
) -> onnx.ModelProto:
    """Make a model of those of `nodes`, `inputs`, `constants` and `packed` weights that `outputs` depend on."""
    constants = dict(constants)
    nodes = [made for node in nodes for made in _with_weights(node, constants, packed)]
    made_by = {output: node for node in nodes for output in node.output}
    used: set[str] = set()
    wanted = [output.name for output in outputs]
    while wanted:
        value = wanted.pop()
        if value not in used:
            used.add(value)
            if value in made_by and value not in packed:
                wanted.extend(made_by[value].input)
    constants.update({value: packed[value].unpack() for value in used if value in packed})
    graph = helper.make_graph(
        [node for node in nodes if used.intersection(node.output) and not packed.keys() & set(node.output)],
        name,
        [value for value in inputs if value.name in used],
        outputs,
        [
            numpy_helper.from_array(np.asarray(constants[value], order="C"), value)
            for value in sorted(used & constants.keys())
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)


def _with_weights(
    node: onnx.NodeProto, constants: dict[str, NDArray], packed: Mapping[str, Packed]
) -> list[onnx.NodeProto]:
    """Return what stands for `node`: rows looked up in a packed table are unpacked after the look-up, and a transposed
    weight becomes a constant, so that its MatMul can be quantised. New constants are added to `constants`."""
    weight = packed.get(node.input[0]) if node.input else None
    if weight is None or node.op_type not in ("Gather", "Transpose"):
        return [node]
    result = node.output[0]
    if node.op_type == "Transpose":
        permutation = next((list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"), None)
        constants[result] = np.transpose(weight.unpack(), permutation)
        return []
    table, scale, offset = (f"{node.input[0]}.{part}" for part in ("values", "scale", "offset"))
    constants.update({table: weight.values, scale: weight.scale, offset: weight.offset})
    return [
        helper.make_node("Gather", [table, node.input[1]], [f"{result}.rows"], axis=0),
        helper.make_node("Cast", [f"{result}.rows"], [f"{result}.cast"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", [f"{result}.cast", scale], [f"{result}.scaled"]),
        helper.make_node("Add", [f"{result}.scaled", offset], [result]),
    ]
