"""The real converted models do what their originals do, and the converters refuse what does not."""

import struct
from collections import Counter
from pathlib import Path
from typing import BinaryIO

import jiwer
import numpy as np
import onnx
import pytest
import soundfile
from onnx import TensorProto, helper, numpy_helper

from agent import models
from agent.asr.moonshine import MoonshineEngine
from agent.models.convert.moonshine import flat_decoder, flat_encoder
from agent.models.convert.piper import split
from agent.models.convert.same_results import open_graph, require_same, run

# Said in the sample that comes with Moonshine's weights.
SAMPLE_TEXT = "ever tried ever failed no matter try again fail again fail better"

F32, Q8_0 = 0, 8  # GGUF's tensor types


def test_converted_moonshine_hears_what_is_said() -> None:
    folder = models.locate("moonshine-base-en")
    samples, rate_hz = soundfile.read(folder / "sample.wav", dtype="float32")
    assert rate_hz == 16_000
    heard = MoonshineEngine(folder).open().finalize(np.asarray(samples, np.float32), lambda: False).text
    words = "".join(letter for letter in heard.lower() if letter.isalpha() or letter == " ")
    assert jiwer.wer(SAMPLE_TEXT, words) <= 0.1, heard


def test_split_piper_voice_sounds_like_the_unsplit_one() -> None:
    """piper_unsplit.npz holds what the published graph gives for "hello world" with its noise switched off."""
    folder = models.locate("piper-en-us-joe")
    with np.load(Path(__file__).with_name("piper_unsplit.npz")) as unsplit:
        sound = _piper_sound(folder, unsplit["phoneme_ids"], noise=0.0)
        assert len(sound) == unsplit["length"]
        assert np.abs(sound[::8] - unsplit["every_8th_sample"]).max() < 1e-4


def test_split_piper_voice_has_noise_that_is_the_same_every_time() -> None:
    folder = models.locate("piper-en-us-joe")
    phoneme_ids = np.arange(3, 39, dtype=np.int64)
    noisy = _piper_sound(folder, phoneme_ids, noise=0.667)
    assert np.array_equal(noisy, _piper_sound(folder, phoneme_ids, noise=0.667))
    assert not np.array_equal(noisy, _piper_sound(folder, phoneme_ids, noise=0.5))


def test_requantised_gguf_has_q8_0_weights() -> None:
    with (models.locate("smollm2-135m") / "model.gguf").open("rb") as file:
        types = _tensor_types(file)
    matrices = Counter(kind for dimensions, kind in types.values() if dimensions > 1)
    assert matrices == {Q8_0: 30 * 7 + 1}  # attention 4 and feed-forward 3 in 30 layers, and the tied embedding
    assert {kind for dimensions, kind in types.values() if dimensions == 1} == {F32}


def test_packed_weights_are_unpacked_to_the_same_results() -> None:
    """A graph of Moonshine's kind in the small: its embedding is looked up in a packed table and is its last matrix."""
    table = np.random.default_rng(1).integers(-127, 127, (50, 8)).astype(np.int8)
    graph = helper.make_graph(
        [
            *_unpacking("table"),
            helper.make_node("Gather", ["table.weights", "ids"], ["rows"]),
            helper.make_node("Transpose", ["table.weights"], ["transposed"], perm=[1, 0]),
            helper.make_node("MatMul", ["rows", "transposed"], ["logits"]),
        ],
        "packed",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 50])],
        _packed_constants("table", table),
    )
    packed = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)
    flat = flat_encoder(packed)
    values = {"ids": np.array([3, 49, 0])}
    require_same(run(open_graph(packed), values), run(open_graph(flat), values), 1e-6)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in flat.graph.initializer}
    assert np.array_equal(stored["table.weights.values"], table), "the look-up reads the packed table"
    assert stored["transposed"].dtype == np.float32
    assert [node.op_type for node in flat.graph.node] == ["Gather", "Cast", "Mul", "Add", "MatMul"]


def test_both_branches_of_a_merged_decoder_become_graphs() -> None:
    merged = _merged_decoder()
    x = np.array([[1.0, 2.0]], np.float32)
    past = np.array([[5.0, 5.0]], np.float32)
    given = {"x": x, "past_key_values.0.encoder.key": past}
    for with_cache, outputs in ((False, ["logits", "present.0.encoder.key"]), (True, ["logits"])):
        flat = flat_decoder(merged, with_cache)
        assert [output.name for output in flat.graph.output] == outputs
        expected = run(open_graph(merged), given | {"use_cache_branch": np.array([with_cache])})
        require_same(expected, run(open_graph(flat), given), 1e-6)
    assert [node.name for node in flat_decoder(merged, False).graph.input] == ["x"], "the first step needs no cache"


def test_a_graph_that_is_no_merged_decoder_is_refused() -> None:
    with pytest.raises(ValueError, match="one If"):
        flat_decoder(flat_decoder(_merged_decoder(), with_cache=True), with_cache=True)


def test_a_graph_that_is_no_piper_voice_is_refused(tmp_path: Path) -> None:
    onnx.save(_merged_decoder(), tmp_path / "voice.onnx")
    with pytest.raises(ValueError, match="no single-speaker Piper voice"):
        split(tmp_path / "voice.onnx", tmp_path)


@pytest.mark.parametrize("wrong", [[1.0, 2.1], [1.0, np.nan], [1.0, 2.0, 3.0]], ids=["different", "nan", "longer"])
def test_results_that_differ_are_refused(wrong: list[float]) -> None:
    with pytest.raises(RuntimeError, match=r"^y "):
        require_same({"y": np.array([1.0, 2.0])}, {"y": np.array(wrong)}, 1e-3)


def _piper_sound(folder: Path, phoneme_ids: np.ndarray, noise: float) -> np.ndarray:
    values = {
        "input": phoneme_ids[None],
        "input_lengths": np.array([len(phoneme_ids)], np.int64),
        "scales": np.array([noise, 1.0, 0.0], np.float32),
    }
    encoded = run(open_graph(folder / "encoder.onnx"), values)
    return run(open_graph(folder / "decoder.onnx"), encoded)["output"].reshape(-1)


def _unpacking(name: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Cast", [f"{name}.int8"], [f"{name}.cast"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{name}.cast", f"{name}.scale"], [f"{name}.scaled"]),
        helper.make_node("Add", [f"{name}.scaled", f"{name}.offset"], [f"{name}.weights"]),
    ]


def _packed_constants(name: str, values: np.ndarray) -> list[onnx.TensorProto]:
    return [
        numpy_helper.from_array(values, f"{name}.int8"),
        numpy_helper.from_array(np.array(0.02, np.float32), f"{name}.scale"),
        numpy_helper.from_array(np.array(0.3, np.float32), f"{name}.offset"),
    ]


def _merged_decoder() -> onnx.ModelProto:
    """One If over a packed weight: without a cache logits = x W and present = x; with one logits = x W + past."""

    def value(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2])

    product = helper.make_node("MatMul", ["x", "w.weights"], ["product"])
    first = helper.make_graph(
        [product, helper.make_node("Identity", ["x"], ["key"])], "first", [], [value("product"), value("key")]
    )
    added = helper.make_node("Add", ["product", "past_key_values.0.encoder.key"], ["sum"])
    kept = helper.make_node("Identity", ["past_key_values.0.encoder.key"], ["key"])
    following = helper.make_graph([product, added, kept], "following", [], [value("sum"), value("key")])
    outputs = ["logits", "present.0.encoder.key"]
    choice = helper.make_node("If", ["use_cache_branch"], outputs, then_branch=following, else_branch=first)
    graph = helper.make_graph(
        [*_unpacking("w"), choice],
        "merged",
        [
            value("x"),
            value("past_key_values.0.encoder.key"),
            helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1]),
        ],
        [value(name) for name in outputs],
        _packed_constants("w", np.array([[1, -2], [3, 4]], np.int8)),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)


def _tensor_types(file: BinaryIO) -> dict[str, tuple[int, int]]:
    """Number of dimensions and type of each tensor of a GGUF file (version 3), by name."""
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    string, array = 8, 9

    def number(kind: str) -> int:
        return struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0]

    def text() -> str:
        return file.read(number("Q")).decode()

    def skip(kind: int) -> None:
        if kind == string:
            text()
        elif kind == array:
            element = number("I")
            for _ in range(number("Q")):
                skip(element)
        else:
            file.seek(sizes[kind], 1)

    assert file.read(4) == b"GGUF" and number("I") == 3
    tensors, facts = number("Q"), number("Q")
    for _ in range(facts):
        text()
        skip(number("I"))
    types = {}
    for _ in range(tensors):
        name, dimensions = text(), number("I")
        file.seek(8 * dimensions, 1)
        types[name] = (dimensions, number("I"))
        file.seek(8, 1)
    return types
