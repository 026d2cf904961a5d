"""The policy of interruptions alone: evidence in, a wish out."""

import time

import pytest

from agent.barge_in import Backchannels, BargeIn, Wish
from agent.settings import BargeInSettings, load


def sound(**settings: object) -> BargeIn:
    return BargeIn(BargeInSettings.model_validate(settings), heard_ns=100)


def test_speech_holds_what_has_not_begun_and_pauses_what_is_heard_once_it_has_lasted_long_enough() -> None:
    one = sound()
    assert one.wish is Wish.HOLD
    one.lasts(0.39, 0.0, 390)
    assert one.wish is Wish.HOLD and one.heard_ns == 100
    one.lasts(0.41, 0.0, 410)
    assert one.wish is Wish.PAUSE and one.heard_ns == 410
    one.lasts(0.43, 0.0, 430)
    assert one.heard_ns == 410


def test_back_channel_words_known_in_time_leave_the_reply_alone_and_known_late_do_not_end_the_pause() -> None:
    early, late = sound(), sound()
    early.recognised("Mm-hm.")
    early.lasts(0.5, 0.0, 500)
    assert early.wish is Wish.HOLD
    late.lasts(0.5, 0.0, 500)
    late.recognised("Yeah,")
    assert late.wish is Wish.PAUSE
    late.recognised("Yeah, but wait")
    assert late.wish is Wish.INTERRUPT


def test_words_interrupt_at_once_in_long_speech_and_when_they_are_final_in_short_speech() -> None:
    long, short = sound(), sound()
    long.lasts(0.5, 0.0, 500)
    long.recognised("Stop")
    assert long.wish is Wish.INTERRUPT and long.why == "words"
    short.lasts(0.3, 0.0, 300)
    short.recognised("Stop")
    assert short.wish is Wish.HOLD
    short.recognised("Stop!", final=True)
    assert short.wish is Wish.INTERRUPT


@pytest.mark.parametrize(("text", "why"), [("", "no words"), ("Okay. Yeah.", "a back-channel")])
def test_a_final_transcript_without_words_lets_the_reply_go_on(text: str, why: str) -> None:
    one = sound()
    one.lasts(0.8, 0.0, 800)
    one.recognised(text, final=True)
    assert one.wish is Wish.GO_ON and one.why == why


def test_nothing_more_said_for_long_enough_lets_the_reply_go_on_and_more_speech_pauses_it_again() -> None:
    one = sound(false_after_s=1.0)
    one.lasts(0.5, 0.99, 1490)
    assert one.wish is Wish.PAUSE
    one.lasts(0.5, 1.0, 1500)
    assert one.wish is Wish.GO_ON and one.why == "nothing more said"
    one.lasts(1.6, 0.0, 1600)
    assert one.wish is Wish.PAUSE
    one.silent_for(1.0)
    assert one.wish is Wish.GO_ON


def test_noise_that_does_not_end_holds_the_reply_no_longer_than_silence_would() -> None:
    one = sound()
    one.lasts(2.3, 0.0, 2300)
    assert one.wish is Wish.PAUSE
    one.lasts(2.5, 0.0, 2500)
    assert one.wish is Wish.PAUSE  # nothing is known of its words
    one.recognised("")
    assert one.wish is Wish.GO_ON
    one.recognised("And now")
    assert one.wish is Wish.INTERRUPT


@pytest.mark.parametrize(
    "text",
    [
        "yeah",
        "Yeah, yeah.",
        "Mm-hm!",
        "mm hm",
        "Mhm",
        "Hmmmm...",
        "Uhhuh",
        "uh-huh, okay",
        "I see.",
        "Right - got it",
        "",
    ],
)
def test_back_channels_however_they_are_spelt(text: str) -> None:
    assert Backchannels(load().barge_in.backchannels).are_all_of(text)


@pytest.mark.parametrize("text", ["I", "see", "no", "yeah but", "okay stop", "I see the sea", "mm-hm-what", "Ja"])
def test_other_words_are_none(text: str) -> None:
    assert not Backchannels(load().barge_in.backchannels).are_all_of(text)


def test_other_words_can_be_chosen_and_a_long_text_takes_no_time() -> None:
    words = Backchannels(["ja", "na ja", "ja na"])
    assert words.are_all_of("Ja, na ja.") and not words.are_all_of("yeah") and not Backchannels([]).are_all_of("ja")
    start_s = time.thread_time()
    assert not words.are_all_of("ja na " * 5000 + "x")
    assert time.thread_time() - start_s < 1.0
