"""One phrase at a time on a VoxCPM2 model: it may be stopped, dropped, replaced or fail at any moment, and the next one
sounds as ever."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from agent.tts.protocol import Patch, Setup
from agent.tts.voxcpm import VoxCpmEngine
from agent.tts.voxcpm_checkpoint import VoxCPM2Model, load
from tests.fakes.ticking import TickingClock, never
from tests.tiny_models.voxcpm import EARLIEST_END, write_voxcpm

TEXT = "hello there, this is a test."
Samples = NDArray[np.float32]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VoxCPM2Model]:
    """Says phrases of four patches."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield load(write_voxcpm(tmp_path_factory.mktemp("voxcpm") / "tiny"), "cpu")
    torch.set_num_threads(threads)


def engine(model: VoxCPM2Model) -> VoxCpmEngine:
    return VoxCpmEngine(model, clock=TickingClock(), diffusion_steps=4)


def sound(items: Iterator[Setup | Patch]) -> Samples:
    return np.concatenate([item.samples for item in items if isinstance(item, Patch)])


def said(engine: VoxCpmEngine, text: str = TEXT) -> Samples:
    return sound(engine.synthesise(text, never))


def attributes(model: VoxCPM2Model) -> list[set[str]]:
    """The names of what lies on the objects themselves where the engine times."""
    lms = (model.base_lm, model.residual_lm)
    objects = [model, *lms, *(lm.kv_cache for lm in lms), model.feat_decoder, model.feat_decoder.estimator]
    return [{*vars(each)} for each in [*objects, model.audio_vae]] + [{str(model.text_tokenizer)}]


def test_stopped_at_any_moment(model: VoxCPM2Model) -> None:
    """Nothing of the model runs after the question that is answered with yes, and the next phrase is as ever."""
    speaking = engine(model)
    clean = said(speaking)
    events: list[str] = []
    modules = {"local encoder": model.feat_encoder, "diffusion": model.feat_decoder.estimator}
    hooks = [
        module.register_forward_pre_hook(lambda *_, name=name: events.append(name)) for name, module in modules.items()
    ]

    def phrase(stop_at_question: int) -> list[Samples]:
        events.clear()

        def should_stop() -> bool:
            events.append("question")
            return events.count("question") >= stop_at_question

        return [item.samples for item in speaking.synthesise(TEXT, should_stop) if isinstance(item, Patch)]

    assert len(phrase(1_000_000)) == EARLIEST_END
    received: list[int] = []
    forwards: set[int] = set()
    for question in range(1, events.count("question") + 1):
        pieces = phrase(question)
        assert events[-1] == "question" and events.count("question") == question
        assert all(np.array_equal(piece, part) for piece, part in zip(pieces, np.split(clean, 4), strict=False))
        received.append(len(pieces))
        forwards.add(events.count("diffusion"))
        if question % 4 == 0:
            assert np.array_equal(said(speaking), clean)
    for hook in hooks:
        hook.remove()
    assert received == sorted(received) and set(received) == {0, 1, 2, 3}
    assert forwards == set(range(3 * EARLIEST_END + 1)), "it was stopped after each forward pass"
    assert np.array_equal(said(speaking), clean)


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_a_phrase_may_be_dropped(model: VoxCPM2Model, taken: int) -> None:
    speaking = engine(model)
    clean = said(speaking)
    before = attributes(model)
    items = speaking.synthesise(TEXT, never)
    for _ in range(taken):
        next(items)
    assert attributes(model) != before
    items.close()  # type: ignore[attr-defined]
    assert attributes(model) == before and not torch.is_inference_mode_enabled()
    assert np.array_equal(said(speaking), clean)
    items = speaking.synthesise(TEXT, never)
    next(items)
    del items
    assert attributes(model) == before


@pytest.mark.parametrize("taken", [1, 2, 4])
@pytest.mark.parametrize("same", [True, False], ids=["same engine", "another engine"])
def test_a_new_phrase_ends_a_suspended_one(model: VoxCPM2Model, taken: int, same: bool) -> None:
    speaking = engine(model)
    clean = said(speaking, "how are you")
    other = speaking if same else engine(model)
    older = speaking.synthesise(TEXT, never)
    for _ in range(taken):
        next(older)
    newer = other.synthesise("how are you", never)
    items = [next(newer), next(newer)]
    assert list(older) == []
    items += newer
    assert np.array_equal(sound(iter(items)), clean)


def test_nothing_to_say_ends_a_suspended_phrase_too(model: VoxCPM2Model) -> None:
    speaking = engine(model)
    older = speaking.synthesise(TEXT, never)
    next(older), next(older)
    assert len(list(speaking.synthesise("...", never))) == 1
    assert list(older) == []


def test_a_failure_inside_leaves_the_model_whole(model: VoxCPM2Model, monkeypatch: pytest.MonkeyPatch) -> None:
    speaking = engine(model)
    clean, before = said(speaking), attributes(model)

    def fail(*_: object) -> None:
        raise RuntimeError("out of order")

    with monkeypatch.context() as patch:
        patch.setitem(vars(model.residual_lm), "forward_step", fail)
        items = speaking.synthesise(TEXT, never)
        next(items), next(items)
        with pytest.raises(RuntimeError, match="out of order"):
            next(items)
    assert attributes(model) == before and np.array_equal(said(speaking), clean)


def test_threads_are_the_engines_own(model: VoxCPM2Model) -> None:
    """Of whichever thread a phrase is computed on, and whatever another engine sets there between two patches."""
    seen: list[int] = []
    hooks = [
        module.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
        for module in (model.base_lm, model.feat_decoder.estimator)
    ]
    before = torch.get_num_threads()
    speaking = VoxCpmEngine(model, clock=TickingClock(), diffusion_steps=2, threads=2)
    assert torch.get_num_threads() == before
    with ThreadPoolExecutor(1) as worker:
        worker.submit(speaking.warm_up).result()
        assert set(seen) == {2}
        seen.clear()
        items = speaking.synthesise(TEXT, never)
        while worker.submit(next, items, None).result() is not None:
            worker.submit(torch.set_num_threads, 1).result()
    for hook in hooks:
        hook.remove()
    assert seen == [2] * (1 + EARLIEST_END) and torch.get_num_threads() == before


def test_warm_up_runs_the_whole_loop(model: VoxCPM2Model) -> None:
    speaking = engine(model)
    before = attributes(model)
    calls: list[str] = []
    hooks = [
        module.register_forward_hook(lambda *_, name=name: calls.append(name))
        for name, module in (("prefill", model.residual_lm), ("diffusion", model.feat_decoder))
    ]
    speaking.warm_up()
    for hook in hooks:
        hook.remove()
    assert calls == ["prefill", "diffusion", "diffusion"] and attributes(model) == before


def test_compiled_modules_are_timed_and_put_back(tmp_path: Path) -> None:
    """The library compiles by putting other objects in the modules' places; here they are compiled to nothing."""
    compiled = load(write_voxcpm(tmp_path / "compiled"), "cpu")
    speaking = engine(compiled)
    plain = said(speaking)
    estimator = compiled.feat_decoder.estimator = torch.compile(compiled.feat_decoder.estimator, backend="eager")
    step = compiled.residual_lm.forward_step = torch.compile(compiled.residual_lm.forward_step, backend="eager")
    forward = estimator.forward
    those = [item for item in speaking.synthesise(TEXT, never) if isinstance(item, Patch)]
    assert np.allclose(np.concatenate([patch.samples for patch in those]), plain, atol=1e-5)
    assert [patch.forwards for patch in those] == [3] * 4
    assert estimator.forward is forward and compiled.residual_lm.forward_step is step
