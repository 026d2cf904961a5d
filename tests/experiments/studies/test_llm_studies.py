"""The studies of the language model on tiny files: streams are apart, copies are what they say, a server ends."""

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import llama_cpp
import pytest

from agent import models
from agent.engine_choice import with_models
from agent.errors import TurnscopeError
from agent.experiments.studies import concurrency, decode_gap, engines
from agent.experiments.studies import served as server
from agent.experiments.studies.copies import Copy, copies_of, write
from agent.experiments.studies.llm_file import require_file, shown_name
from agent.experiments.studies.nodes import node_times
from agent.experiments.studies.served import served
from agent.experiments.studies.streams import Streams
from agent.experiments.studies.study import Bench
from agent.llm.gguf import GgufModel
from agent.llm.gguf_header import GgufHeader
from agent.llm.http import HttpLlmEngine
from agent.settings import load
from profiling.machine.probe import Prober, ProbeReading
from profiling.studies.node_times import ATTENTION, OTHER, WEIGHTS
from profiling.trace.clock import Clock, SystemClock
from profiling.work_book import WorkBook
from tests.llm.tiny_gguf import write_scripted

SCRIPT = ("▁yes", "▁well", "▁no", "▁maybe", "<|im_end|>")
SERVER_SETTINGS = {"n_ctx": 512, "n_threads": 1, "n_threads_batch": 1}


class ShortProber(Prober):
    def __init__(self) -> None:
        super().__init__(threads=1, most_bytes=20_000_000)

    def read(self, clock: Clock) -> ProbeReading:
        return super().read(clock, limit_s=0.08)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scripted(tmp_path_factory.mktemp("studies") / "scripted.gguf", SCRIPT)


@pytest.fixture
def bench(path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    llm = {"model": str(path), "threads": 1, "prefill_threads": 1, "context_tokens": 512}
    bench = Bench(with_models(load(None, {"engines": "cpu", "device": "cpu", "llm": llm})), SystemClock(), str, 0.2)
    bench.book = WorkBook(threads={"llm": 1, "prefill": 1}, devices={"llm": "cpu", "prefill": "cpu"})
    for module in (concurrency, decode_gap):
        monkeypatch.setattr(module, "prober", lambda _bench: ShortProber())
    return bench


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[GgufModel]:
    with closing(GgufModel(path, gpu_layers=0)) as model:
        yield model


def likeliest(streams: Streams, model: GgufModel, row: int) -> str:
    logits = llama_cpp.llama_get_logits_ith(streams._handle, row)[: model.vocab_tokens]
    return model.token_text(max(range(model.vocab_tokens), key=lambda token: logits[token]))


def test_every_stream_goes_on_from_its_own_token(model: GgufModel) -> None:
    numbers = {model.token_text(token).strip(" "): token for token in range(model.vocab_tokens)}
    tokens = [numbers[text] for text in ("\n", "yes", "well", "no")]
    with closing(Streams(model, 4, 64, threads=1, prompt_tokens=8, flash_attention=False)) as streams:
        for count in (1, 4, 2):
            streams.clear()
            for _ in range(2):
                streams.step(tokens[:count])
                said = [likeliest(streams, model, row).strip() for row in range(count)]
                assert said == ["yes", "well", "no", "maybe"][:count]


def test_more_streams_than_were_opened_are_an_error(model: GgufModel) -> None:
    with (
        closing(Streams(model, 2, 64, threads=1, prompt_tokens=8, flash_attention=False)) as streams,
        pytest.raises(TurnscopeError, match="failed to evaluate 3 tokens"),
    ):
        streams.step([1, 1, 1])


def test_concurrency(bench: Bench) -> None:
    finding = concurrency.run(bench)
    counts = [int(row[0]) for row in finding.rows]
    assert counts[:4] == [1, 2, 4, 8] and all(after == 2 * before for before, after in pairwise(counts))
    assert finding.title == "Streams of scripted at once" and finding.rows[0][4] == "100 %"


def test_decode_gap(bench: Bench) -> None:
    finding = decode_gap.run(bench)
    assert {row[0].split(",")[0] for row in finding.rows} == {"F32", "Q8_0", "Q4_0", "F16"}
    assert "Too few sizes and formats" in finding.sentence and "node by node" in finding.sentence


def test_the_nodes_of_a_token_are_of_all_kinds_and_no_longer_than_it(bench: Bench, path: Path) -> None:
    times = node_times(bench, path, 64)
    assert times.nodes > 10 and set(times.kinds_s) == {WEIGHTS, ATTENTION, OTHER}
    assert all(min(each) > 0 for each in times.kinds_s.values())
    sums = [sum(each) for each in zip(*times.kinds_s.values(), strict=True)]
    assert len(sums) == len(times.timed_s) and all(a <= b for a, b in zip(sums, times.timed_s, strict=True))


def test_copies_have_the_format_and_half_of_the_layers(tmp_path: Path) -> None:
    source = models.locate("smollm2-135m") / "model.gguf"
    header = GgufHeader(source)
    planned = list(copies_of(header, "Q8_0"))
    assert [copy.name for copy in planned] == ["Q4_0", "F16", "Q8_0 half", "Q4_0 half", "F16 half"]
    assert write(source, tmp_path / "half.gguf", Copy("Q4_0", True), 30)
    with closing(GgufModel(tmp_path / "half.gguf", gpu_layers=0)) as copy:
        assert copy.header.integer("block_count") == 15
        assert {tensor.format for tensor in copy.header.tensors} >= {"Q4_0"}
        assert copy.parameters == pytest.approx(81.4e6, rel=0.01)  # 28.3 of them are the embedding


def test_engines(bench: Bench) -> None:
    finding = engines.run(bench)
    assert len(finding.rows) == 10 and finding.rows[-1][0] == "all, difference"
    assert finding.title == "scripted in-process and over HTTP"
    bench.llm.close()


def test_a_server_ends_with_the_block(path: Path) -> None:
    with served(path, SERVER_SETTINGS, SystemClock()) as url:
        assert HttpLlmEngine(url, clock=SystemClock()).model == "scripted"
    with pytest.raises(TurnscopeError):
        HttpLlmEngine(url, clock=SystemClock())


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(TurnscopeError, match=r"did not start within 120 s \(.*absent.gguf"),
        served(tmp_path / "absent.gguf", SERVER_SETTINGS, SystemClock()),
    ):
        pass


def test_without_the_servers_packages_a_sentence_says_what_to_install(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_NEEDED", ("uvicorn_absent",))
    with (
        pytest.raises(TurnscopeError, match=r"uvicorn_absent.*not installed.*llama-cpp-python\[server\]"),
        served(path, SERVER_SETTINGS, SystemClock()),
    ):
        pass


@pytest.mark.parametrize("module", [concurrency, decode_gap, engines])
def test_a_servers_model_is_refused(module: object, bench: Bench) -> None:
    llm = bench.settings.llm.model_copy(update={"model": "http://127.0.0.1:9/v1"})
    bench.settings = bench.settings.model_copy(update={"llm": llm})
    with pytest.raises(TurnscopeError, match="is a server: give a model's name"):
        module.run(bench)


def test_a_file_is_shown_by_its_name(bench: Bench, path: Path) -> None:
    assert require_file(bench.settings) == path and shown_name(bench.settings) == "scripted"
