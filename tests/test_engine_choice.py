"""Which engine runs which model, on which device, and what is said of models that no engine can run."""

from pathlib import Path

import pytest

from agent import devices, engine_choice
from agent.engine_choice import Places, choose, needed_models, places, with_models
from agent.errors import TurnscopeError
from agent.settings import Settings, load

EMBEDDED = ("moonshine-base-en", "smollm2-135m", "piper-en-us-joe")
BIG = ("nemotron", "gemma-4-12b", "voxcpm2")


def named(settings: Settings) -> tuple[str | None, str | None, str | None]:
    return settings.asr.model, settings.llm.model, settings.tts.model


def flags(asr: object = None, llm: object = None, tts: object = None, **more: object) -> dict[str, object]:
    return {
        "asr": {"model": asr and str(asr)},
        "llm": {"model": llm and str(llm)},
        "tts": {"model": tts and str(tts)},
    } | more


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """A machine with so many CUDA devices, a PyTorch and a llama.cpp that can use them, and the big models, or not."""

    def make(cuda: int, build: bool = True, fetched: bool = True, llama: bool = True) -> None:
        monkeypatch.setattr(devices, "cuda_devices", lambda: cuda)
        monkeypatch.setattr(devices, "torch_knows_cuda", lambda: build)
        monkeypatch.setattr(engine_choice, "big_models_are_here", lambda: fetched)
        monkeypatch.setattr(engine_choice, "llama_offloads", lambda: llama and cuda > 0)

    return make


@pytest.mark.parametrize(
    ("cuda", "build", "fetched", "llama", "engines", "models", "device"),
    [
        (0, True, True, True, "auto", EMBEDDED, "cpu"),
        (1, True, True, True, "auto", BIG, "cuda"),
        (1, False, True, True, "auto", EMBEDDED, "cpu"),
        (1, True, False, True, "auto", EMBEDDED, "cuda"),
        (1, True, True, False, "auto", EMBEDDED, "cuda"),
        (1, True, True, False, "gpu", BIG, "cuda"),
        (1, True, True, True, "cpu", EMBEDDED, "cuda"),
        (0, True, False, True, "gpu", BIG, "cpu"),
    ],
)
def test_a_set_of_engines(
    machine, cuda: int, build: bool, fetched: bool, llama: bool, engines: str, models: tuple[str, ...], device: str
) -> None:
    machine(cuda, build, fetched, llama)
    settings = with_models(load(flags={"engines": engines}))
    assert named(settings) == models and settings.device == device and settings.engines in ("cpu", "gpu")


def test_a_stages_own_model_goes_before_the_set(machine) -> None:
    machine(0)
    assert named(with_models(load(flags=flags(llm="gemma-4-12b")))) == (EMBEDDED[0], "gemma-4-12b", EMBEDDED[2])
    settings = with_models(load(flags=flags(tts="piper-en-us-joe", engines="gpu")))
    assert named(settings) == ("nemotron", "gemma-4-12b", "piper-en-us-joe")
    assert needed_models(settings) == ["silero-vad", "smart-turn-v3.2", "nemotron", "piper-en-us-joe", "gemma-4-12b"]


def test_a_device_that_is_not_there(machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(0)
    with pytest.raises(TurnscopeError, match=r"no CUDA device 0 .there is none.: choose --device cpu"):
        with_models(load(flags={"device": "cuda"}))
    machine(2)
    with pytest.raises(TurnscopeError, match=r"no CUDA device 2 .there are 2."):
        with_models(load(flags={"device": "cuda:2"}))
    assert with_models(load(flags={"device": "cuda:1"})).device == "cuda:1"
    machine(1, build=False)
    for installed, sentence in (
        (Path("torch"), "a build for the CPU: run `make setup-gpu` .*`pip config list`.*or choose --device cpu"),
        (None, "PyTorch is not installed: run `make setup-gpu`"),
    ):
        monkeypatch.setattr(devices, "_torch_folder", lambda installed=installed: installed)
        with pytest.raises(TurnscopeError, match=sentence):
            with_models(load(flags={"device": "cuda"}))
    with pytest.raises(TurnscopeError, match=r"device .*\(got 'gpu'\)"):
        load(flags={"device": "gpu"})


def test_files_folders_and_servers_choose_their_engine(machine, tmp_path: Path) -> None:
    machine(0)
    nemo, gguf = tmp_path / "a.nemo", tmp_path / "b.gguf"
    choice = choose(with_models(load(flags=flags(nemo, gguf, tmp_path))))
    assert (choice.asr, choice.llm, choice.tts) == ("nemotron", "llama", "voxcpm")
    assert (choice.asr_path, choice.llm_path, choice.tts_path) == (nemo, gguf, tmp_path)
    for url in ("http://127.0.0.1:8000/v1", "HTTPS://example.org/v1"):
        choice = choose(with_models(load(flags=flags(llm=url))))
        assert (choice.asr, choice.llm, choice.tts, choice.llm_path) == ("moonshine", "http", "piper", None)


@pytest.mark.parametrize(
    "url",
    [
        "user:s3cret@host:80/v1",
        "ftp://x/v1",
        "ftp://me:s3cret@x/v1",
        "http://host/v1?key=s3cret",
        "http://me:s3cret@host/v1",
        "localhost:8000/v1",
        "HOST:1",
        "[::1]:80",
    ],
)
def test_an_address_that_is_none_is_no_file_and_shows_no_secret(machine, url: str) -> None:
    machine(0)
    with pytest.raises(TurnscopeError, match=r"address of a server.*give http|of a server holds no name") as refusal:
        choose(with_models(load(flags=flags(llm=url))))
    assert "s3cret" not in str(refusal.value)


def test_a_file_may_be_called_like_an_address(machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q4@home").touch()
    for name in ("q4@home", "absent@home.gguf", str(tmp_path / "a@b.gguf")):
        assert choose(with_models(load(flags=flags(llm=name)))).llm_path == Path(name)


def test_a_folder_that_is_called_like_a_model_does_not_take_its_place(
    machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "voxcpm2").mkdir()
    assert choose(with_models(load(flags=flags(tts="voxcpm2")))).tts_path is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (flags(asr="whisper"), "no recogniser 'whisper': choose moonshine-base-en or nemotron, or give .*nemo file"),
        (flags(llm="gpt"), "no language model 'gpt': choose smollm2-135m or gemma-4-12b, or give .*GGUF.*URL"),
        (flags(tts="alloy"), "no voice 'alloy': choose piper-en-us-joe or voxcpm2, or give .*VoxCPM2"),
    ],
)
def test_an_unknown_model_is_named_with_those_that_are_known(machine, given: dict[str, object], sentence: str) -> None:
    machine(0)
    with pytest.raises(TurnscopeError, match=sentence):
        choose(with_models(load(flags=given)))


@pytest.mark.parametrize(("given", "missing"), [(flags(asr="nemotron"), "nemo"), (flags(tts="voxcpm2"), "voxcpm")])
def test_a_package_that_is_not_installed(
    machine, given: dict[str, object], missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(0)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == missing else object())
    with pytest.raises(TurnscopeError, match=f"needs {missing}, which is not installed: run `make setup-gpu`"):
        choose(with_models(load(flags=given)))


@pytest.mark.parametrize("chunk_ms", [40, 240, 2000])
def test_a_chunk_that_nemotron_does_not_have_is_refused_with_the_list(machine, tmp_path: Path, chunk_ms: int) -> None:
    machine(0)
    given = load(flags={"asr": {"model": str(tmp_path / "a.nemo"), "chunk_ms": chunk_ms}})
    with pytest.raises(TurnscopeError, match=f"no chunk of {chunk_ms} ms: choose 80, 160, 320, 560 or 1120"):
        choose(with_models(given))


def test_a_chunk_that_moonshine_does_not_have_is_refused_with_its_bounds(machine) -> None:
    machine(0)
    for chunk_ms in (80, 1120):
        choose(with_models(load(flags={"asr": {"chunk_ms": chunk_ms}})))
    for chunk_ms in (79, 1121):
        with pytest.raises(TurnscopeError, match=rf"asr\.chunk_ms .*from 80 to 1120 ms \(got {chunk_ms}\)\.$"):
            choose(with_models(load(flags={"asr": {"chunk_ms": chunk_ms}})))


def test_what_the_user_gave_stays_known(machine) -> None:
    machine(0)
    given = load(flags={"device": "cpu", "llm": {"seed": 0}})
    settings = with_models(given)
    assert settings.model_fields_set == given.model_fields_set == {"device", "llm"}
    assert (settings.asr.model_fields_set, settings.llm.model_fields_set) == (set(), {"seed"})
    assert (
        settings.model_dump() == Settings.model_validate(settings.model_dump(exclude={"llm": {"api_key"}})).model_dump()
    )


@pytest.mark.parametrize(
    ("cuda", "build", "given", "layers"),
    [(1, False, {}, None), (1, True, {"device": "cpu"}, 0), (0, True, {}, None), (1, True, {"device": "cuda"}, None)],
)
def test_layers_stay_off_a_gpu_only_where_the_cpu_was_asked_for(
    machine, cuda: int, build: bool, given: dict[str, object], layers: int | None
) -> None:
    machine(cuda, build)
    assert with_models(load(flags=given)).llm.gpu_layers == layers
    assert with_models(load(flags=given | {"llm": {"gpu_layers": 7}})).llm.gpu_layers == 7


@pytest.mark.parametrize(
    ("cuda", "build", "llama", "given", "where"),
    [
        (2, True, True, {"engines": "gpu", "device": "cuda:1"}, Places("cuda:1", "cuda:1", "cuda:1")),
        (1, True, False, {"engines": "gpu"}, Places("cuda", "cpu", "cuda")),
        (1, True, True, {"engines": "cpu"}, Places("cpu", "cuda", "cpu")),
        (1, True, True, {"engines": "cpu", "llm": {"gpu_layers": 0}}, Places("cpu", "cpu", "cpu")),
        (1, False, True, {}, Places("cpu", "gpu", "cpu")),
        (1, True, True, {"device": "cpu"}, Places("cpu", "cpu", "cpu")),
        (1, True, True, {"llm": {"model": "http://127.0.0.1/v1"}, "engines": "gpu"}, Places("cuda", None, "cuda")),
    ],
)
def test_where_each_engine_computes(
    machine, cuda: int, build: bool, llama: bool, given: dict[str, object], where: Places
) -> None:
    machine(cuda, build, llama=llama)
    assert places(with_models(load(flags=given))) == where


def test_llama_cpp_is_asked_itself(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    import llama_cpp

    for offloads in (True, False):
        engine_choice.llama_offloads.cache_clear()
        monkeypatch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda offloads=offloads: offloads)
        assert engine_choice.llama_offloads() is offloads
    engine_choice.llama_offloads.cache_clear()
    assert capfd.readouterr() == ("", "")


def test_thinking_on_leaves_half_of_the_context() -> None:
    assert load(flags={"llm": {"thinking_tokens": "on"}}).llm.thinking_budget(2048) == 1024
    assert load(flags={"llm": {"thinking_tokens": 64}}).llm.thinking_budget(2048) == 64
    with pytest.raises(TurnscopeError, match="thinking_tokens"):
        load(flags={"llm": {"thinking_tokens": "maybe"}})


def test_a_servers_key_is_not_written_down() -> None:
    settings = load(flags={"llm": {"api_key": "secret"}})
    assert "secret" not in settings.model_dump_json() and "secret" not in repr(settings)
