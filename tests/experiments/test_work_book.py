"""The work of the default engines against what can be counted in their files by other means."""

from math import prod

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from agent import models
from agent.asr.moonshine_graphs import Decoder, Encoder
from agent.asr.moonshine_sound import Frontend, Sound
from agent.engine_choice import with_models
from agent.experiments.workload import small_models
from agent.experiments.workload.book import work_book
from agent.experiments.workload.names import ONNX_FLOAT32, ONNX_INT8
from agent.experiments.workload.onnx_profile import count
from agent.settings import load
from profiling import operations as op
from profiling.work_book import TermLaw, WorkBook

DEFAULT = ("moonshine-base-en", "smollm2-135m", "piper-en-us-joe")


@pytest.fixture(scope="module")
def book() -> WorkBook:
    return work_book(with_models(load(None, {"engines": "cpu"})))


def term(book: WorkBook, operation: str, part: str) -> TermLaw:
    (found,) = [term for term in book.operations[operation].terms if term.part == part]
    return found


def weights(model: str, file: str) -> dict[str, tuple[tuple[int, ...], int]]:
    """Shape and bytes of the tensors of a graph, by name."""
    graph = onnx.load(str(models.locate(model) / file)).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].t.data_type != TensorProto.UNDEFINED:
            arrays[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return {name: (array.shape, array.nbytes) for name, array in arrays.items()}


def test_every_operation_of_the_default_engines_has_its_work(book: WorkBook) -> None:
    assert set(book.operations) == {op.ASR_STEP, op.PREFILL, op.TOKEN, op.SETUP, op.FIRST_PATCH, op.PATCH}
    assert all(term.flops.at({}) or term.flops.per for work in book.operations.values() for term in work.terms)
    assert book.threads == {"asr": 1, "llm": book.threads["llm"], "prefill": book.threads["prefill"], "tts": 1}
    assert set(book.devices.values()) == {"cpu"}


def test_a_token_of_the_recogniser_goes_once_through_every_8_bit_matrix_of_its_decoder(book: WorkBook) -> None:
    """Two operations per weight and token; the embedding is looked up, not multiplied, but is the output head too."""
    matrices = {
        name: shape
        for name, (shape, size) in weights(DEFAULT[0], "decoder.onnx").items()
        if len(shape) == 2 and size == prod(shape) and not name.endswith(".values")
    }
    decoder = term(book, op.ASR_STEP, "decoder")
    assert decoder.rate.startswith(ONNX_INT8)
    assert decoder.flops.per[op.TOKENS] == pytest.approx(2 * sum(map(prod, matrices.values())), rel=0.01)
    assert decoder.flops.constant == pytest.approx(0, abs=1)
    assert decoder.bytes.constant == pytest.approx(sum(map(prod, matrices.values())), rel=0.02)
    assert not decoder.bytes.per


def test_the_encoder_grows_with_the_sound_and_reads_its_weights_once(book: WorkBook) -> None:
    encoder = term(book, op.ASR_STEP, "encoder")
    stored = sum(size for _, size in weights(DEFAULT[0], "encoder.onnx").values())
    whole = encoder.bytes.at({op.ENCODED_S: 2.0}) + term(book, op.ASR_STEP, "encoder, float32").bytes.at({})
    assert whole == pytest.approx(stored, rel=0.05)
    one, two = (encoder.flops.at({op.ENCODED_S: s}) for s in (2.0, 4.0))
    assert two > 1.9 * one > 0


def test_the_line_through_two_lengths_holds_between_them(book: WorkBook) -> None:
    folder = models.locate(DEFAULT[0])

    def use() -> None:
        noise = np.random.default_rng(3).normal(0, 0.1, 40_000).astype(np.float32)  # 2.5 s
        encoder = Encoder(folder / "encoder.onnx", 1)
        encoder.run(Sound(Frontend(folder / "frontend.onnx", 1), noise))

    (counted,) = count(use)["encoder"]
    units = {op.ENCODED_S: 2.5 + 0.396}
    assert term(book, op.ASR_STEP, "encoder").flops.at(units) == pytest.approx(counted.int8.flops, rel=0.02)
    assert term(book, op.ASR_STEP, "encoder, float32").flops.at(units) == pytest.approx(counted.float32.flops, rel=0.15)


def test_each_run_of_a_graph_is_counted_by_itself() -> None:
    folder = models.locate(DEFAULT[0])

    def use() -> None:
        frontend, encoder = Frontend(folder / "frontend.onnx", 1), Encoder(folder / "encoder.onnx", 1)
        encoded = encoder.run(Sound(frontend, np.full(16_000, 0.1, np.float32)))
        decoder = Decoder(folder / "decoder.onnx", 1)
        for tokens in (2, 2, 4):
            once = iter((False, True))
            decoder.greedy(encoded, 9, lambda once=once: next(once), draft=range(10, 9 + tokens))

    first, again, longer = count(use)["decoder"]
    assert first == again
    assert longer.int8.flops == pytest.approx(2 * first.int8.flops)


def test_a_patch_of_the_voice_reads_all_its_decoder(book: WorkBook) -> None:
    stored = sum(size for shape, size in weights(DEFAULT[2], "decoder.onnx").values() if len(shape) == 3)
    for operation in (op.FIRST_PATCH, op.PATCH):
        decode = term(book, operation, "decode")
        assert decode.rate.startswith(ONNX_FLOAT32)
        assert decode.bytes.constant == pytest.approx(stored, rel=0.02)
    first, later = (term(book, operation, "decode").flops.constant for operation in (op.FIRST_PATCH, op.PATCH))
    assert later / first == pytest.approx((48 + 24) / (16 + 12), rel=0.02)  # frames with their overlap


def test_the_language_model_is_read_whole_for_a_token_and_once_for_a_prompt(book: WorkBook) -> None:
    token, prefill = term(book, op.TOKEN, "decode"), term(book, op.PREFILL, "prefill")
    assert book.llm is not None
    assert token.bytes.at({op.KV_BYTES: 1000.0}) == book.llm.weight_bytes + 1000
    assert token.flops.constant == 2 * book.llm.parameters == pytest.approx(2 * 134.5e6, rel=0.001)
    assert prefill.bytes.at({op.TOKENS: 300.0}) == book.llm.weight_bytes
    embeddings = 49_152 * 576
    assert prefill.flops.at({op.TOKENS: 10.0}) == pytest.approx(20 * (book.llm.parameters - embeddings))
    assert token.rate.startswith("Q8_0") and token.read.startswith("read")
    assert book.llm.weight_bytes == pytest.approx(book.llm.parameters * 8.5 / 8, rel=0.01)


def test_a_servers_model_has_no_work_here() -> None:
    settings = with_models(load(None, {"engines": "cpu", "llm": {"model": "http://127.0.0.1:9/v1"}}))
    book = work_book(settings)
    assert book.llm is None and {op.PREFILL, op.TOKEN}.isdisjoint(book.operations)


def test_the_names_of_the_default_models_are_the_ones_used_here() -> None:
    settings = with_models(load(None, {"engines": "cpu"}))
    assert (settings.asr.model, settings.llm.model, settings.tts.model) == DEFAULT
    assert small_models.moonshine(models.locate(DEFAULT[0]), 0.64)[op.ASR_STEP].terms[0].flops.constant == (
        pytest.approx(2 * small_models.moonshine(models.locate(DEFAULT[0]), 0.32)[op.ASR_STEP].terms[0].flops.constant)
    )
