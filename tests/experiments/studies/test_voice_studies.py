"""The voice's studies on engines whose times are known exactly, and whole on a tiny VoxCPM2."""

from collections.abc import Iterator
from inspect import signature
from itertools import islice
from pathlib import Path

import pytest

from agent.engine_choice import with_models
from agent.errors import TurnscopeError
from agent.experiments.calibration.budget import Budget
from agent.experiments.studies import first_audio, fixed_cost, patch
from agent.experiments.studies import streaming as streams
from agent.experiments.studies.study import Bench
from agent.settings import load
from agent.tts.piper import PiperEngine
from agent.tts.protocol import Patch, Setup, ShouldStop
from profiling import operations as op
from profiling.studies.finding import Finding
from profiling.trace.clock import SystemClock
from tests.fakes.engines import FakeTts
from tests.fakes.virtual_time import VirtualClock
from tests.tiny_models.voxcpm import write_voxcpm

PARTS = ["stop check", "base LM", "residual LM", "diffusion", "local encoder", "VAE"]


class SteadyTts(FakeTts):
    """Set-up takes 5 ms and one more for every character; the first patch of a phrase takes 10 ms longer."""

    def synthesise(self, text: str, should_stop: ShouldStop) -> Iterator[Setup | Patch]:
        self.setup_cost_s, own_s = 0.005 + 0.001 * len(text), self.patch_cost_s
        for item in islice(super().synthesise(text, should_stop), None):
            self.patch_cost_s = own_s + 0.01 if isinstance(item, Setup) else own_s
            yield item


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_voxcpm(tmp_path_factory.mktemp("tts") / "tiny", stop="never")


def bench(clock: VirtualClock, tts: FakeTts) -> Bench:
    made = Bench(with_models(load(None, {"engines": "cpu"})), clock, lambda what: None, budget_s=3)
    made.__dict__["tts"] = tts
    return made


def real(voice: Path) -> Bench:
    settings = with_models(load(None, {"engines": "cpu", "tts": {"model": str(voice), "diffusion_steps": 5}}))
    return Bench(settings, SystemClock(), lambda what: None, budget_s=0)


def whole(found: Finding) -> None:
    assert found.sentence.endswith(".") and found.data
    assert all(len(row) == len(found.columns) for row in found.rows)


def test_patches_are_said_by_every_engine_in_turn_and_counted_within_phrases(clock: VirtualClock) -> None:
    engines = {"slow": FakeTts(clock, patch_cost_s=0.08), "fast": FakeTts(clock, patch_cost_s=0.04)}
    first, (slow, fast) = patch.measure(engines, Budget(clock, 0), most=4)
    assert [len(phrase) for phrase in slow.phrases] == [len(phrase) for phrase in fast.phrases] == [2, 2]
    assert slow.time.value == pytest.approx(0.08) and fast.time.value == pytest.approx(0.04)
    assert slow.shares == pytest.approx({"diffusion": 0.75, "vae": 0.25})
    assert [one.duration_s for one in first] == pytest.approx([0.08, 0.08])  # of the first engine alone
    assert slow.unit == op.FORWARDS and all(said == engines["slow"].said for said in (engines["fast"].said,))


def test_the_size_that_is_taken_for_pipers_own_is(clock: VirtualClock) -> None:
    own = {name: one.default for name, one in signature(PiperEngine).parameters.items()}
    assert (own["patch_frames"], own["overlap_frames"]) == (patch._USUAL_FRAMES, patch._OVERLAP_FRAMES)


def test_a_tiny_voxcpm2_shows_its_parts_and_what_a_step_costs(voice: Path) -> None:
    found = patch.run(real(voice))
    whole(found)
    assert [row[0] for row in found.rows] == [
        *PARTS, "5 diffusion steps", "first patch", "4 diffusion steps", "6 diffusion steps", "8 diffusion steps"
    ]  # fmt: skip
    assert sum(int(row[3].removesuffix(" %")) for row in found.rows[:6]) == pytest.approx(100, abs=3)
    assert all(row[4] for row in found.rows[:6]), "the work of every part is known"
    counted = {name: {one["units"][op.FORWARDS] for said in phrases for one in said}
               for name, phrases in found.data["settings"].items()}  # fmt: skip
    assert counted == {f"{steps} diffusion steps": {steps - 1} for steps in (5, 4, 6, 8)}


def test_the_fixed_cost_of_a_voice_whose_times_are_known(clock: VirtualClock) -> None:
    found = fixed_cost.run(bench(clock, SteadyTts(clock, word_s=0.4)))
    rows = {row[0]: [float(cell) for cell in row[1:2]] for row in found.rows}
    units = found.data["units"]
    assert rows["set-up"] == pytest.approx([5 + units], rel=0.01)
    assert rows["first patch's excess"] == pytest.approx([10], abs=0.1)
    assert rows["intercept"] == pytest.approx([15 + units], rel=0.01)
    assert rows["unexplained"] == pytest.approx([0], abs=0.1)


def test_first_audio_of_a_voice_that_follows_the_law_is_predicted(clock: VirtualClock) -> None:
    found = first_audio.run(bench(clock, SteadyTts(clock, word_s=0.4)))
    whole(found)
    *texts, published = found.rows
    assert found.sentence.startswith("Intercept + one patch holds here: ")
    assert len(texts) == 8 and {row[5] for row in texts} == {"yes"}
    assert all(int(row[-1]) >= 2 for row in texts) and published[4:6] == ("", "")
    checking = [one for one in found.data["phrases"] if one["checks"]]
    assert len(checking) == sum(int(row[-1]) for row in texts) == int(published[-1])


def test_a_voice_that_says_everything_in_one_length_has_no_law(clock: VirtualClock) -> None:
    for study in (fixed_cost, first_audio):
        with pytest.raises(TurnscopeError, match=r"fake-tts cannot be .*of at least 6 lengths"):
            study.run(bench(clock, FakeTts(clock, word_s=0.0)))


def test_a_tiny_voxcpm2_has_a_fixed_cost_or_a_sentence_why_not(voice: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its law comes out is the machine's business; its phrases end, at several lengths."""
    monkeypatch.setattr(streams, "_SLOWEST", 60)
    monkeypatch.setattr(streams, "_MORE_S", 0.3)
    for study in (fixed_cost, first_audio):
        try:
            found = study.run(real(voice))
        except TurnscopeError as error:
            assert "speed changed" in str(error)
        else:
            whole(found)
            sounds = [one["audio_ends_s"][-1] for one in found.data["phrases"]]
            assert max(sounds) < 2.5 and len({round(sound, 2) for sound in sounds}) >= 6
            assert {"tokenise", "prefill"} <= {row[0] for row in found.rows} or study is first_audio


def test_a_voice_without_an_end_is_left_when_its_text_must_be_over(clock: VirtualClock) -> None:
    engine = FakeTts(clock, word_s=30)
    items = list(streams.Ending(engine).synthesise("Good morning.", lambda: False))
    sound_s = sum(len(item.samples) for item in items if isinstance(item, Patch)) / engine.sample_rate
    assert 2.6 <= sound_s <= 2.6 + engine.patch_s + 0.1
    short = list(streams.Ending(FakeTts(clock)).synthesise("Good morning.", lambda: False))
    assert len(short) == len(list(FakeTts(clock).synthesise("Good morning.", lambda: False)))


def test_first_audio_is_left_after_one_patch(clock: VirtualClock) -> None:
    engine = FakeTts(clock)
    before_ns = clock.now_ns()
    heard = streams.first_audio(engine, "one two three")
    assert clock.now_ns() - before_ns == pytest.approx(0.07e9)
    assert heard.checks and heard.setup_s == pytest.approx(0.03)
    assert heard.patch_ends_s == pytest.approx((0.07,)) and heard.audio_ends_s == pytest.approx((0.4,))
