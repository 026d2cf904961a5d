"""A conversation is recorded, and its recording replayed: the same words, the same interruptions."""

import errno
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile

from agent.audio.sample_clock import Packet, SampleClock
from agent.events import Event, ReplyAudible, TurnEnded, TurnOpened
from agent.recording import ScenarioRecorder
from agent.recording_folder import SETTINGS_FILE, new_recording
from agent.scenario import Scenario, Utterance, load_scenario
from agent.settings import Settings, load
from profiling.trace.timeline import Turn
from profiling.trace.vocabulary import EndReason
from profiling.whole_file import write_whole
from tests.fakes.engines import noise, silence, speech
from tests.fakes.recorded import Recorded
from tests.fakes.talk import says, talk_through, utterance
from tests.fakes.virtual_time import VirtualClock

STORY = "Once upon a time there was a dragon, and it lived in a cave by the sea with a very good friend."


def told(ended: Sequence[TurnEnded]) -> list[tuple[str, EndReason | None]]:
    return [(event.transcript, event.turn.end_reason) for event in ended]


def words_heard(ended: Sequence[TurnEnded]) -> list[int]:
    return [len(event.heard.split()) for event in ended]


def replayed(recorded: Scenario, replies: Sequence[str], settings: Settings | None = None) -> list[TurnEnded]:
    return talk_through([recorded], replies, settings).ended


CONVERSATIONS: dict[str, tuple[list[Utterance], list[str]]] = {
    "questions": (
        [says("hello"), says("how are you", "reply_end", 0.8), says("what is the time", "reply_end", 3.0)],
        ["Hello.", "Fine, thank you very much.", "It is time to go."],
    ),
    "a barge-in": (
        [says("tell me a story"), says("stop please", "reply_start", 1.5), says("hello", "reply_end", 0.6)],
        [STORY, "I have stopped.", "Hello again."],
    ),
    "a barge-in at once": (
        [says("tell me a story"), says("stop please", "reply_start", 0.1)],
        [STORY, "I have stopped."],
    ),
    "a back-channel, then a barge-in on the same reply": (
        [
            says("tell me a story"),
            utterance(
                np.concatenate([speech("yeah"), silence(2.0), speech("stop please"), silence(0.3)]),
                "reply_start",
                0.7,
                2.6,
            ),
        ],
        [STORY, "I have stopped."],
    ),
    "a sentence gone on with": (
        [
            utterance(
                np.concatenate([speech("tell me a story"), silence(0.33), speech("and then stop"), silence(0.3)]),
                "absolute",
                0.7,
                1.73,
            )
        ],
        ["Once.", "Very well."],
    ),
    "a noise before the first words": (
        [utterance(np.concatenate([noise(0.5), silence(4.0), speech("hello"), silence(0.3)]), "absolute", 0.5, 4.7)],
        ["Hello."],
    ),
    "a noise in a reply": (
        [says("tell me a story"), utterance(np.concatenate([noise(0.6), silence(0.3)]), "reply_start", 1.0, None)],
        [STORY],
    ),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_recorded_conversation_replays_with_the_same_words_and_interruptions(name: str, tmp_path: Path) -> None:
    utterances, replies = CONVERSATIONS[name]
    folder = new_recording("this", tmp_path)
    first = Recorded(folder, utterances, replies)
    recorded = load_scenario(folder)
    assert recorded.expect_turns == len(first.ended) >= 1
    again = replayed(recorded, replies)
    assert told(again) == told(first.ended)
    assert words_heard(again) == pytest.approx(words_heard(first.ended), abs=1)  # the device reads 40 ms ahead
    assert first.told == []


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_whenever_it_is_killed_what_is_there_can_be_replayed(name: str, tmp_path: Path) -> None:
    utterances, replies = CONVERSATIONS[name]
    folder, seen = new_recording("this", tmp_path), list[int]()

    def write(path: Path, data: bytes) -> None:
        write_whole(path, data)
        if (folder / "scenario.toml").exists():
            seen.append(len(load_scenario(folder).utterances))

    Recorded(folder, utterances, replies, write=write)
    assert seen and seen == sorted(seen)
    assert not list(folder.glob("*.unfinished"))


def test_a_turn_is_on_disk_before_its_reply_ends_and_nothing_is_written_while_one_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, waited_for, written = new_recording("this", tmp_path), set[int](), list[int]()
    well = ScenarioRecorder.observe

    def observe(recorder: ScenarioRecorder, event: Event) -> None:
        match event:
            case TurnOpened(turn):
                waited_for.add(turn.index)
            case ReplyAudible(turn):
                waited_for.discard(turn.index)
            case TurnEnded():
                written.append(len(load_scenario(folder).utterances))
            case _:
                pass
        well(recorder, event)

    def write(path: Path, data: bytes) -> None:
        assert not waited_for
        write_whole(path, data)

    monkeypatch.setattr(ScenarioRecorder, "observe", observe)
    Recorded(folder, *CONVERSATIONS["questions"], write=write)
    assert written == [1, 2, 3]


def test_killed_in_the_second_reply_the_first_two_turns_replay_as_they_went(tmp_path: Path) -> None:
    utterances, replies = CONVERSATIONS["a barge-in"]
    folder, then = new_recording("this", tmp_path), tmp_path / "then"

    def write(path: Path, data: bytes) -> None:
        write_whole(path, data)
        if path.name == "scenario.toml" and data.count(b"[[") == 2 and not then.exists():
            shutil.copytree(folder, then)

    first = Recorded(folder, utterances, replies, write=write)
    assert told(replayed(load_scenario(then), replies)) == told(first.ended)[:2]


def test_a_conversation_that_goes_on_after_the_device_was_unplugged_is_one_recording(tmp_path: Path) -> None:
    folder = new_recording("this", tmp_path)
    utterances = [says("tell me a story"), says("how are you", "absolute", 9.0), says("hello", "reply_end", 1.0)]
    first = Recorded(folder, utterances, [STORY, "Fine.", "Hello."], lost_at_s=[3.5])
    assert [event.turn.end_reason for event in first.ended] == [
        EndReason.STOPPED,
        EndReason.COMPLETED,
        EndReason.COMPLETED,
    ]
    again = replayed(load_scenario(folder), [STORY, "Fine.", "Hello."])
    assert [event.transcript for event in again] == ["tell me a story", "how are you", "hello"]


def test_after_a_reconnect_sound_comes_by_another_clock_whose_samples_begin_anew(tmp_path: Path) -> None:
    folder = new_recording("this", tmp_path)
    recorder = ScenarioRecorder(
        folder, load(), VirtualClock(), write=write_whole, tell=print, command="turnscope serve"
    )

    def call(number: int, origin_s: float) -> None:
        """Speech from 1.0 s to 1.8 s, noticed at 1.2 s; the turn ends at 3.0 s, the call at 3.5 s."""
        capture = SampleClock(round(origin_s * 1e9), 16_000)
        sound = np.concatenate([silence(1.0), speech("how are you today"), silence(1.7)])
        turn = Turn("c", number, capture.ns_of(16_000))
        for start in range(0, len(sound), 320):
            recorder.packet(Packet(start, sound[start : start + 320]), capture)
            if start == 19_200:
                recorder.observe(TurnOpened(turn))
            if start == 35_200:
                turn.speech_end_ns = capture.ns_of(28_800)
            if start == 48_000:
                turn.end_ns = capture.ns_of(48_000)
                recorder.observe(TurnEnded(turn, "how are you today", "", ""))

    call(1, 5.0)
    call(2, 20.0)
    recorder.close()
    one, two = load_scenario(folder).utterances
    assert (one.after, one.delay_s, two.after, two.delay_s) == ("absolute", 0.5, "reply_end", 12.5)
    for utterance_ in (one, two):
        assert utterance_.recording.duration_s == pytest.approx(1.8)
        assert np.flatnonzero(utterance_.recording.samples)[[0, -1]].tolist() == [8_000, 8_000 + 12_799]


def test_words_are_kept_only_where_content_is(tmp_path: Path) -> None:
    utterances, replies = CONVERSATIONS["a back-channel, then a barge-in on the same reply"]
    private, open_ = new_recording("private", tmp_path), new_recording("open", tmp_path)
    Recorded(private, utterances, replies)
    Recorded(open_, utterances, replies, load(flags={"capture_content": True}))
    said = [utterance.transcript for utterance in load_scenario(open_).utterances]
    assert said == ["tell me a story", "yeah stop please"]
    assert [utterance.transcript for utterance in load_scenario(private).utterances] == [None, None]
    assert "story" not in (private / "scenario.toml").read_text()


def test_its_sound_is_16_khz_mono_of_16_bits_and_it_says_where_it_comes_from(tmp_path: Path) -> None:
    folder = new_recording("this", tmp_path)
    Recorded(folder, *CONVERSATIONS["questions"])
    for file in sorted(folder.glob("*.wav")):
        info = soundfile.info(file)
        assert (info.samplerate, info.channels, info.subtype) == (16_000, 1, "PCM_16")
    recorded = load_scenario(folder)
    assert recorded.licence == "private" and "turnscope talk" in str(recorded.source) and recorded.language == "en"
    lead_in, tail = (recorded.utterances[1].recording.samples[part] for part in (slice(0, 7000), slice(-7000, None)))
    assert not lead_in.any() and not tail.any()  # at least 0.43 s of silence on either side


def test_the_settings_are_those_a_replay_can_be_given_without_the_key_of_a_server(tmp_path: Path) -> None:
    folder = new_recording("this", tmp_path)
    flags = {
        "llm": {"thinking_tokens": "on", "api_key": "secret", "system_prompt": 'Say "so".\n'},
        "capture_content": True,
    }
    settings = load(flags=flags)
    Recorded(folder, *CONVERSATIONS["a barge-in at once"], settings)
    assert "secret" not in (folder / SETTINGS_FILE).read_text()
    without_key = settings.model_copy(update={"llm": settings.llm.model_copy(update={"api_key": None})})
    assert load(folder / SETTINGS_FILE).model_dump() == without_key.model_dump()


@pytest.mark.parametrize("room", range(6))
def test_a_full_disk_ends_the_recording_and_not_the_conversation(room: int, tmp_path: Path) -> None:
    folder, left = new_recording("this", tmp_path), [room]

    def write(path: Path, data: bytes) -> None:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= 1
        write_whole(path, data)

    utterances, replies = CONVERSATIONS["questions"]
    first = Recorded(folder, utterances, replies, write=write)
    assert [event.turn.end_reason for event in first.ended] == [EndReason.COMPLETED] * 3
    (sentence,) = first.told
    assert "No space left on device" in sentence and sentence.endswith(".")
    if (folder / "scenario.toml").exists():
        again = replayed(load_scenario(folder), replies)
        assert told(again) == told(first.ended)[: len(again)]


def test_where_nothing_is_said_no_folder_is_left(tmp_path: Path) -> None:
    folder = new_recording("this", tmp_path)
    Recorded(folder, [utterance(silence(0.5), "absolute", 0.2, None)], [])
    assert not folder.exists()
