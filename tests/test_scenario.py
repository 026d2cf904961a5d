from pathlib import Path

import numpy as np
import pytest
import soundfile

from agent.errors import TurnscopeError
from agent.scenario import bundled, load_scenario
from agent.scenario_file import FILE_NAME

HEAD = 'description = "d"\nlanguage = "en"\nlicence = "CC0-1.0"\n'
FIRST = '[[utterances]]\nfile = "a.wav"\nspeaker = "s"\nsynthetic = true\nafter = "absolute"\ndelay_s = 0.5\n'
SECOND = FIRST.replace('"absolute"\ndelay_s = 0.5', '"reply_end"\ndelay_s = 1')


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    noise = np.random.default_rng(5).uniform(-0.1, 0.1, 16_000)
    soundfile.write(folder / "a.wav", noise, 16_000)
    return folder


def write(folder: Path, text: str | bytes) -> Path:
    (folder / FILE_NAME).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def sentence(name_or_path: str | Path) -> str:
    with pytest.raises(TurnscopeError) as raised:
        load_scenario(name_or_path)
    text = str(raised.value)
    assert text.endswith(".") and "\n" not in text
    return text


def test_a_folder_becomes_a_scenario(folder):
    more = SECOND + 'transcript = "hello"\nlast_voiced_s = 0.9\nlicence = "own"\n'
    scenario = load_scenario(write(folder, HEAD + 'source = "here"\n' + FIRST + more))
    assert (scenario.name, scenario.description, scenario.language) == ("mine", "d", "en")
    assert (scenario.licence, scenario.source, scenario.expect_turns) == ("CC0-1.0", "here", 2)
    first, second = scenario.utterances
    assert (first.speaker, first.synthetic, first.licence) == ("s", True, "CC0-1.0")
    assert (first.after, first.delay_s, first.transcript, first.last_voiced_s) == ("absolute", 0.5, None, None)
    assert first.last_voiced_sample is None
    assert first.recording.duration_s == 1.0
    assert (second.after, second.delay_s, second.transcript, second.licence) == ("reply_end", 1.0, "hello", "own")
    assert second.last_voiced_sample == 14_400


def test_the_toml_itself_and_a_relative_folder_are_scenarios_too(folder, monkeypatch):
    write(folder, HEAD + FIRST)
    assert load_scenario(folder / FILE_NAME).name == "mine"
    monkeypatch.chdir(folder)
    assert load_scenario(".").name == "mine"
    assert load_scenario(FILE_NAME).name == "mine"


def test_a_bundled_name_goes_before_a_folder_of_that_name(tmp_path, monkeypatch):
    (tmp_path / "go-forward").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_scenario("go-forward").utterances[0].transcript == "go forward ten meters"
    assert "holds no scenario.toml" in sentence("./go-forward/")
    assert "holds no scenario.toml" in sentence(tmp_path / "go-forward")


def test_a_bare_wav_file_is_a_scenario_of_one_turn(folder):
    scenario = load_scenario(folder / "a.wav")
    assert (scenario.name, scenario.expect_turns, scenario.licence) == ("a", 1, None)
    (utterance,) = scenario.utterances
    assert (utterance.after, utterance.delay_s, utterance.last_voiced_s) == ("absolute", 0.5, None)
    assert not utterance.synthetic and utterance.transcript is None


def test_a_silent_bare_wav_file_is_refused_but_a_silent_utterance_is_not(folder):
    soundfile.write(folder / "a.wav", np.zeros(16_000), 16_000)
    assert "is silent" in sentence(folder / "a.wav")
    scenario = load_scenario(write(folder, HEAD + "expect_turns = 0\n" + FIRST))
    assert scenario.expect_turns == 0


def test_warnings_of_the_recordings_are_gathered(folder):
    soundfile.write(folder / "a.wav", np.ones(1600), 16_000)
    assert ["is clipped" in warning for warning in load_scenario(write(folder, HEAD + FIRST + SECOND)).warnings] == [
        True
    ] * 2


def test_no_such_scenario(tmp_path):
    assert "did you mean go-forward?" in sentence("goforward")
    text = sentence("xyzzy")
    assert "did you mean" not in text
    assert all(name in text for name in bundled())
    assert "No such file" in sentence(tmp_path / "missing.wav")
    assert "cannot be read" in sentence("x" * 5000)


@pytest.mark.parametrize(
    ("text", "place"),
    (
        (HEAD + "this is not TOML\n" + FIRST, "line 4, column 6"),
        (HEAD + FIRST.replace('"s"', '"s'), "line 6, column 13"),
        (HEAD + "x = [1, 2", "line 4, column 10"),
        (HEAD + 'source = """never closed\n', "line 5, column 1"),
        (HEAD + HEAD, "line 4, column 18"),
        (HEAD.encode() + b'source = "\xe4"\n', "line 4, column 11"),
    ),
)
def test_broken_toml_names_file_line_and_column(folder, text, place):
    said = sentence(write(folder, text))
    assert str(folder / FILE_NAME) in said
    assert place in said


def test_toml_nested_too_deeply(folder):
    assert "nested too deeply" in sentence(write(folder, "x = " + "[" * 100_000))


@pytest.mark.parametrize(
    ("text", "said"),
    (
        ("", "the scenario lacks the key 'description'"),
        (HEAD, "the scenario lacks the key 'utterances'"),
        (HEAD + "utterances = []\n", "utterances of the scenario is not valid: list should have at least 1 item"),
        (HEAD + "utterances = 3\n", "utterances of the scenario is not valid: input should be a valid list (got 3)"),
        (HEAD + "utterances = [3]\n", "utterance 1 is not a table: begin it with [[utterances]]"),
        (HEAD + "name = 1\n" + FIRST, "unknown key 'name'; the keys are description, language, licence, source, "),
        (HEAD + FIRST + "delay = 1\n", "utterance 1 has an unknown key 'delay'; the keys are file, speaker, "),
        (HEAD + FIRST + SECOND.replace('file = "a.wav"\n', ""), "utterance 2 lacks the key 'file'"),
        (
            HEAD + FIRST.replace("true", '"yes"'),
            "synthetic of utterance 1 is not valid: input should be a valid boolean",
        ),
        (HEAD + FIRST.replace("true", "1"), "synthetic of utterance 1 is not valid"),
        (HEAD + FIRST.replace("0.5", '"0.5"'), "delay_s of utterance 1 is not valid: input should be a valid number"),
        (HEAD + FIRST.replace("0.5", "-0.5"), "greater than or equal to 0 (got -0.5)"),
        (HEAD + FIRST.replace("0.5", "1e9"), "less than or equal to 3600"),
        (HEAD + FIRST.replace("0.5", "nan"), "delay_s of utterance 1 is not valid: input should be a finite number"),
        (HEAD + FIRST + "last_voiced_s = 0\n", "last_voiced_s of utterance 1 is not valid"),
        (
            HEAD + FIRST + "last_voiced_s = 1.01\n",
            "last_voiced_s of utterance 1 is 1.01 s, but a.wav is only 1.000 s long",
        ),
        (HEAD + FIRST.replace("absolute", "later"), "'absolute', 'reply_start' or 'reply_end' (got 'later')"),
        (HEAD + SECOND, 'the first utterance has no reply before it: give it after = "absolute"'),
        (HEAD + "expect_turns = -1\n" + FIRST, "expect_turns of the scenario is not valid"),
        (
            HEAD + "expect_turns = 1.5\n" + FIRST,
            "expect_turns of the scenario is not valid: input should be a valid integer",
        ),
        (HEAD + "expect_turns = 0\n" + FIRST + SECOND, "expects no turns, so no utterance can wait for a reply"),
        (HEAD + FIRST + FIRST, "utterance 2 starts at 0.5 s, but an earlier one ends at 1.500 s"),
        (
            HEAD + FIRST + SECOND + FIRST.replace("0.5", "1.4"),
            "utterance 3 starts at 1.4 s, but an earlier one ends at",
        ),
        (HEAD + FIRST.replace("a.wav", "b.wav"), "file of utterance 1 does not exist: 'b.wav'"),
        (HEAD + FIRST.replace("a.wav", "../other.wav"), "file of utterance 1 lies outside the scenario's folder"),
        (HEAD + FIRST.replace("a.wav", "/etc/passwd"), "file of utterance 1 lies outside the scenario's folder"),
        (HEAD + FIRST.replace("a.wav", "."), "is not a file"),
        (HEAD + FIRST.replace("a.wav", "scenario.toml"), "is not a WAV file"),
        (HEAD + FIRST.replace("a.wav", "x" * 5000), "file of utterance 1 is not a usable path"),
        (HEAD + FIRST.replace("a.wav", "a\\u0000.wav"), "file of utterance 1 is not a usable path"),
    ),
)
def test_an_invalid_scenario_says_what_is_wrong(folder, text, said):
    text = sentence(write(folder, text))
    assert said in text
    assert str(folder) in text


def test_links_may_not_lead_outside(folder, tmp_path):
    (folder / "a.wav").rename(tmp_path / "secret.wav")
    (folder / "a.wav").symlink_to(tmp_path / "secret.wav")
    assert "lies outside" in sentence(write(folder, HEAD + FIRST))
    (folder / "a.wav").unlink()
    (folder / "a.wav").symlink_to(folder / "a.wav")
    assert "utterance 1" in sentence(write(folder, HEAD + FIRST))


def test_absolute_utterances_may_follow_one_another_at_once(folder):
    scenario = load_scenario(write(folder, HEAD + FIRST + FIRST.replace("0.5", "1.5")))
    assert [utterance.delay_s for utterance in scenario.utterances] == [0.5, 1.5]


def test_what_is_bundled():
    scenarios = {name: load_scenario(name) for name in bundled()}
    spoken = [scenario for scenario in scenarios.values() if scenario.expect_turns]
    human = [scenario for scenario in spoken if not any(utterance.synthetic for utterance in scenario.utterances)]
    assert len(human) >= 3
    assert scenarios["silence"].expect_turns == 0
    conversation = scenarios["capital-cities"]
    assert all(utterance.synthetic for utterance in conversation.utterances)
    assert [utterance.after for utterance in conversation.utterances].count("reply_start") == 1
    files = [utterance.recording.path for scenario in scenarios.values() for utterance in scenario.utterances]
    assert sum(file.stat().st_size for file in files) < 2_000_000
    readme = (files[0].parents[1] / "README.md").read_text()
    for name, scenario in scenarios.items():
        assert scenario.name == name and f"| `{name}` |" in readme
        assert scenario.warnings == () and scenario.licence and scenario.source
        for utterance in scenario.utterances:
            assert (utterance.recording.source_rate_hz, utterance.recording.subtype) == (16_000, "PCM_16")


def without_rumble(samples):
    """What lies above 200 Hz: breath and handling noise lies below."""
    spectrum = np.fft.rfft(samples.astype(np.float64))
    spectrum[np.fft.rfftfreq(len(samples), 1 / 16_000) < 200] = 0
    return np.fft.irfft(spectrum, len(samples))


def end_of_speech_s(samples, within_db: float) -> float:
    """The end of the last 10 ms whose level is within `within_db` of the loudest 10 ms."""
    energy = np.concatenate(([0.0], np.cumsum(samples**2)))
    starts = np.arange(0, len(samples) - 160, 16)
    windows = energy[starts + 160] - energy[starts]
    return float(starts[np.flatnonzero(windows >= windows.max() * 10 ** (-within_db / 10))[-1]] + 160) / 16_000


SPOKEN = [
    (name, number)
    for name in bundled()
    for number, utterance in enumerate(load_scenario(name).utterances)
    if utterance.transcript is not None
]


@pytest.mark.parametrize(("name", "number"), SPOKEN)
def test_speech_ends_where_the_scenario_says(name, number):
    utterance = load_scenario(name).utterances[number]
    samples = without_rumble(utterance.recording.samples)
    assert utterance.last_voiced_s is not None and utterance.last_voiced_sample is not None
    assert 0.5 < utterance.last_voiced_s < utterance.recording.duration_s - 0.1
    measured_s = end_of_speech_s(samples, 35 if utterance.synthetic else 30)
    assert utterance.last_voiced_s == pytest.approx(measured_s, abs=0.0105)
    level = np.sqrt(np.mean(samples[: utterance.last_voiced_sample] ** 2))
    after = np.sqrt(np.mean(samples[utterance.last_voiced_sample + 160 :] ** 2))
    assert after < level / 10
