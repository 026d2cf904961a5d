"""What loading hands to each engine and on which thread, and what it refuses before it has taken long."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from agent import devices, engine_choice, models
from agent.apology import TEXT
from agent.engine_choice import TAKES, Kind, with_models
from agent.engines import Engines
from agent.errors import TurnscopeError
from agent.llm.history import new_history
from agent.loading import load_engines
from agent.settings import Settings, load
from agent.tts.protocol import Patch, Setup
from agent.worker import ThreadWorker
from profiling.trace.clock import SystemClock

FILES = {"asr": "a.nemo", "llm": "b.gguf", "tts": "c"}


class Recorded:
    """An engine that notes how it was made, and on which threads it was made and warmed up."""

    made: dict[str, "Recorded"]
    context_tokens = 2048
    opening_tokens = 300
    sample_rate = 22_050
    patch_s = 0.5

    def __init__(self, source: Any, **given: Any) -> None:
        self.source, self.given = source, given
        self.threads = [threading.get_ident()]
        self.made[type(self).__name__] = self

    def warm_up(self, *_: Any) -> None:
        self.threads.append(threading.get_ident())

    def synthesise(self, text: str, should_stop: Callable[[], bool]) -> Iterator[Setup | Patch]:
        self.threads.append(threading.get_ident())
        self.said = text
        yield Setup(0, 1, {}, len(text), ())
        for level in (0.1, 0.2):
            yield Patch(np.full(100, level, np.float32), 0, round(self.patch_s * 1e9))

    def prompt_tokens(self, messages: Any) -> int:
        assert messages == new_history(load().llm).opening()
        return self.opening_tokens


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Recorded]:
    """The engines that were made, by class; every model is in the store, and a CUDA device for the big ones."""
    Recorded.made = {}
    for module, name in (
        ("agent.asr.moonshine", "MoonshineEngine"),
        ("agent.asr.nemotron", "NemotronEngine"),
        ("agent.llm.llama", "LlamaEngine"),
        ("agent.llm.http", "HttpLlmEngine"),
        ("agent.tts.piper", "PiperEngine"),
        ("agent.tts.voxcpm", "VoxCpmEngine"),
        ("agent.listening.vad", "SileroVad"),
        ("agent.listening.smart_turn", "SmartTurn"),
    ):
        fake = ModuleType(module)
        setattr(fake, name, type(name, (Recorded,), {}))
        monkeypatch.setitem(sys.modules, module, fake)
    monkeypatch.setattr(models, "locate", lambda name: tmp_path / "store" / name)
    monkeypatch.setattr(engine_choice, "_require_packages", lambda kind: None)
    monkeypatch.setattr(engine_choice, "llama_offloads", lambda: True)
    monkeypatch.setattr(devices, "cuda_devices", lambda: 2)
    monkeypatch.setattr(devices, "torch_knows_cuda", lambda: True)
    for file in ("a.nemo", "b.gguf"):
        (tmp_path / file).touch()
    (tmp_path / FILES["tts"]).mkdir()
    return Recorded.made


def loaded(**flags: Any) -> tuple[Settings, Engines]:
    settings = with_models(load(flags=flags))
    engines = load_engines(settings, SystemClock(), lambda what: None)
    for worker in workers(engines).values():
        worker.stop()
    return settings, engines


def workers(engines: Engines) -> dict[str, ThreadWorker]:
    return {name: worker for name, worker in vars(engines.workers).items() if isinstance(worker, ThreadWorker)}


# A value of each setting that is not its default.
ASR = {"chunk_ms": 560, "language": "de", "threads": 3, "mode": "buffered", "flush": False}
LLM = {
    "thinking_tokens": 5,
    "max_tokens": 70,
    "context_tokens": 1024,
    "temperature": 0.5,
    "seed": 7,
    "system_prompt": None,
    "threads": 3,
    "prefill_threads": 4,
    "gpu_layers": 9,
    "flash_attention": True,
    "batch_tokens": 64,
    "micro_batch_tokens": 32,
    "swa_full": False,
    "draft_tokens": 6,
    "server_model": "served",
    "api_key": "key",
}
TTS = {
    "threads": 3,
    "phonemizer": "gruut",
    "diffusion_steps": 5,
    "guidance": 1.5,
    "voice": "old",
    "reference_wav": "r.wav",
    "prompt_wav": "p.wav",
    "prompt_text": "said",
    "seed": 8,
    "max_patches": 20,
    "normalize": True,
    "compiled": True,
}
PATHS = {"reference_wav", "prompt_wav", "draft"}
ELSEWHERE = {"flush", "max_tokens", "system_prompt", "model"}  # settings that are the pipeline's, not the constructor's


def taken(kind: Kind, section: dict[str, Any]) -> dict[str, Any]:
    """What of a section the engine's constructor is to get, by the setting's name."""
    return {
        name: Path(value) if name in PATHS else value
        for name, value in section.items()
        if name in TAKES[kind] - ELSEWHERE
    }


def check(engine: Recorded, kind: Kind, section: dict[str, Any], **more: Any) -> None:
    given = dict(engine.given)
    assert given.pop("clock") is not None
    assert given == taken(kind, section) | more


def test_every_setting_of_the_big_engines_arrives(made: dict[str, Recorded], tmp_path: Path) -> None:
    llm = LLM | {"draft": str(tmp_path / FILES["llm"])}
    loaded(engines="gpu", device="cuda:1", asr=ASR, llm=llm, tts=TTS)
    store = tmp_path / "store"
    check(made["NemotronEngine"], "nemotron", ASR, name="nemotron", device="cuda:1")
    check(made["VoxCpmEngine"], "voxcpm", TTS, name="voxcpm2", device="cuda:1")
    llama = made["LlamaEngine"]
    assert llama.given.pop("thinking") is True and llm.pop("thinking_tokens")
    check(llama, "llama", llm, name="gemma-4-12b", main_gpu=1)
    assert made["NemotronEngine"].source == store / "nemotron" / "model.nemo"
    assert (llama.source, made["VoxCpmEngine"].source) == (store / "gemma-4-12b" / "model.gguf", store / "voxcpm2")


def test_every_setting_of_the_small_engines_arrives(made: dict[str, Recorded], tmp_path: Path) -> None:
    loaded(engines="cpu", device="cpu", asr=ASR, tts=TTS)
    check(made["MoonshineEngine"], "moonshine", ASR, name="moonshine-base-en")
    check(made["PiperEngine"], "piper", TTS, name="piper-en-us-joe")
    given = made["LlamaEngine"].given
    assert (given["gpu_layers"], given["main_gpu"], given["thinking"], given["name"]) == (
        0,
        None,
        False,
        "smollm2-135m",
    )


def test_every_setting_of_a_server_arrives(made: dict[str, Recorded]) -> None:
    loaded(engines="cpu", llm=LLM | {"model": "http://127.0.0.1:8000/v1"})
    given = {name: value for name, value in LLM.items() if name not in ("thinking_tokens", "server_model")}
    check(made["HttpLlmEngine"], "http", given, model="served")
    assert made["HttpLlmEngine"].source == "http://127.0.0.1:8000/v1"


def test_paths_arrive_and_the_engine_names_itself(made: dict[str, Recorded], tmp_path: Path) -> None:
    loaded(**{stage: {"model": str(tmp_path / file)} for stage, file in FILES.items()})
    for name, file in zip(("NemotronEngine", "LlamaEngine", "VoxCpmEngine"), FILES.values(), strict=True):
        assert made[name].source == tmp_path / file and made[name].given["name"] is None


def test_an_engine_is_loaded_and_warmed_up_on_the_thread_that_will_serve_it(made: dict[str, Recorded]) -> None:
    engines = load_engines(with_models(load()), SystemClock(), lambda what: None)
    threads = {name: worker.run_now(threading.get_ident) for name, worker in workers(engines).items()}
    for name, engine in (("asr", "MoonshineEngine"), ("llm", "LlamaEngine"), ("tts", "PiperEngine")):
        assert len(made[engine].threads) >= 2 and set(made[engine].threads) == {threads[name]}
    assert len({*threads.values(), threading.get_ident()}) == 5
    for worker in workers(engines).values():
        worker.stop()


def test_the_apology_is_kept_as_the_voice_says_it(made: dict[str, Recorded]) -> None:
    _, engines = loaded()
    assert engines.apology is not None and made["PiperEngine"].said == TEXT
    np.testing.assert_array_equal(engines.apology.samples, np.repeat(np.float32([0.1, 0.2]), 100))
    assert engines.apology.rate_hz == 22_050


def limits_s(engines: Engines) -> dict[str, float | None]:
    return {name: worker.bound.limit_s for name, worker in workers(engines).items()}


def test_a_slow_engine_may_take_longer_unless_the_settings_say(
    made: dict[str, Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for the voice's slowest patch is given ten times as long; what is quick, the usual time."""
    assert limits_s(loaded()[1]) == {"asr": 20.0, "smart_turn": 3.0, "llm": 20.0, "tts": 20.0}
    monkeypatch.setattr(Recorded, "patch_s", 6.0)
    assert limits_s(loaded()[1])["tts"] == 60.0
    given = loaded(limits={"asr_s": 1, "smart_turn_s": 2, "llm_s": 3, "tts_s": 4})[1]
    assert limits_s(given) == {"asr": 1.0, "smart_turn": 2.0, "llm": 3.0, "tts": 4.0}
    told = str(given.workers.tts.bound.silent())
    assert told == "The voice gave nothing for 4 s and was stopped: if it needs longer, raise limits.tts_s."


def test_only_what_takes_several_calls_at_once_is_replaced_while_it_hangs(made: dict[str, Recorded]) -> None:
    small = workers(loaded(engines="cpu")[1])
    assert {name for name, worker in small.items() if not worker.bound.reentrant} == {"llm"}
    big = workers(loaded(engines="gpu")[1])
    assert {name for name, worker in big.items() if not worker.bound.reentrant} == {"llm", "tts"}


def test_the_threads_end_when_loading_fails(made: dict[str, Recorded], monkeypatch: pytest.MonkeyPatch) -> None:
    del made
    before = set(threading.enumerate())
    monkeypatch.setattr(Recorded, "opening_tokens", 5000)
    with pytest.raises(TurnscopeError, match="leaves no room"):
        loaded()
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive()


def absent(*names: str) -> Callable[[str], Path]:
    def locate(name: str) -> Path:
        if name in names:
            raise TurnscopeError(f"The model {name} is not on this machine yet: run `turnscope models fetch {name}`.")
        return Path(name)

    return locate


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["voxcpm2"], "The model voxcpm2 is not on this machine yet: run `turnscope models fetch voxcpm2`"),
        (["nemotron", "voxcpm2"], "models nemotron and voxcpm2 .*: run `turnscope models fetch nemotron voxcpm2`"),
    ],
)
def test_all_missing_models_are_named_before_anything_is_loaded(
    made: dict[str, Recorded], monkeypatch: pytest.MonkeyPatch, names: list[str], sentence: str
) -> None:
    monkeypatch.setattr(models, "locate", absent(*names))
    with pytest.raises(TurnscopeError, match=sentence):
        loaded(engines="gpu")
    assert not made


@pytest.mark.parametrize("given", [{"llm": {"model": "absent.gguf"}}, {"llm": {"draft": "absent.gguf"}}])
def test_a_path_that_leads_nowhere_is_named_before_anything_is_loaded(
    made: dict[str, Recorded], given: dict[str, Any]
) -> None:
    with pytest.raises(TurnscopeError, match=r"absent\.gguf"):
        loaded(engines="gpu", **given)
    assert not made


def odd_paths(folder: Path) -> dict[str, Path]:
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    return {
        "folder": folder,
        "device": Path("/dev/zero"),
        "pipe": folder / "pipe",
        "loop": folder / "loop",
        "file": folder / "b.gguf",
        "long": folder / ("x" * 300),
        "within a file": folder / "b.gguf" / "a",
    }


@pytest.mark.parametrize("stage", ["asr", "llm", "draft", "tts"])
def test_a_path_to_something_else_is_told_as_what_it_is(made: dict[str, Recorded], tmp_path: Path, stage: str) -> None:
    wrong = {
        "loop": "cannot be read (Too many levels of symbolic links): give the path of",
        "long": "cannot be read (File name too long): give the path of",
        "within a file": "cannot be read (Not a directory): give the path of",
    }
    if stage == "tts":
        wrong |= dict.fromkeys(("file", "device", "pipe"), "is no folder: give the path of a folder with a VoxCPM2")
    else:
        wrong |= dict.fromkeys(("folder", "device", "pipe"), "is no file: give the path of")
    paths = odd_paths(tmp_path)
    for kind, words in wrong.items():
        given = {"llm": {"draft": str(paths[kind])}} if stage == "draft" else {stage: {"model": str(paths[kind])}}
        with pytest.raises(TurnscopeError) as raised:
            loaded(engines="gpu", **given)
        assert str(raised.value).startswith(f"{paths[kind]} {words}"), raised.value
    assert not made


def test_a_context_that_does_not_even_hold_the_opening(made: dict[str, Recorded]) -> None:
    """Nothing that shortens the reply helps then; 300 tokens and 32 for tags are taken."""
    Recorded.context_tokens, usual = 332, Recorded.context_tokens
    try:
        with pytest.raises(TurnscopeError) as raised:
            loaded(llm={"max_tokens": 1})
        told = str(raised.value)
        assert "takes 300 tokens" in told and "raise llm.context_tokens" in told and "llm.system_prompt" in told
        assert "--max-tokens" not in told
        Recorded.context_tokens = 333
        loaded(llm={"max_tokens": 1})
    finally:
        Recorded.context_tokens = usual


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"thinking_tokens": 1556}, ("160 tokens", "a thought of 1557", "2048", "--thinking or --max-tokens")),
        ({"thinking_tokens": "on", "max_tokens": 692}, ("693 tokens", "a thought of 1024", "2048")),
        ({"max_tokens": 1716}, ("reply of 1717 tokens does not", "2048", "lower --max-tokens", "llm.context_tokens")),
    ],
)
def test_a_reply_that_cannot_fit_is_refused_with_all_lengths(
    made: dict[str, Recorded], given: dict[str, Any], words: tuple[str, ...]
) -> None:
    """Each is what just fits, and is then one more."""
    loaded(llm=given)
    made.clear()
    more = next(name for name in ("max_tokens", "thinking_tokens") if name in given)
    with pytest.raises(TurnscopeError) as raised:
        loaded(llm=given | {more: given[more] + 1})
    assert all(word in str(raised.value) for word in words), raised.value
    assert "PiperEngine" not in made
