"""The endpoint's state machine, frame by frame on the sample clock."""

from agent.listening.end_of_turn import TextEnd
from agent.listening.endpoint import Endpoint, EndpointEvent, SilenceAsked, SpeechEnded, SpeechStarted
from agent.listening.vad import VadFrame
from agent.settings import EndpointSettings

FRAME = 512
FRAME_S = FRAME / 16_000
SETTINGS = EndpointSettings(smart_turn_threshold=0.5, unfinished_threshold=0.05, finished_text_odds=3)


def feed(endpoint: Endpoint, probabilities: list[float], start: int = 0) -> list[tuple[int, EndpointEvent]]:
    events: list[tuple[int, EndpointEvent]] = []
    for number, probability in enumerate(probabilities, start):
        frame = VadFrame(number * FRAME, (number + 1) * FRAME, probability)
        events += [(number, event) for event in endpoint.push(frame)]
    return events


def asked(events: list[tuple[int, EndpointEvent]]) -> list[SilenceAsked]:
    return [event for _, event in events if isinstance(event, SilenceAsked)]


def test_a_click_is_not_speech_and_speech_starts_where_it_began() -> None:
    endpoint = Endpoint(SETTINGS)
    assert feed(endpoint, [0.0, 0.9, 0.9, 0.0, 0.0]) == []
    assert feed(endpoint, [0.9, 0.9, 0.9], start=5) == [(7, SpeechStarted(5 * FRAME))]
    assert endpoint.speaking


def test_hangover_alone_ends_the_turn_after_a_fixed_silence() -> None:
    endpoint = Endpoint(EndpointSettings(mode="hangover", hangover_s=0.5))
    events = feed(endpoint, [0.9] * 10 + [0.1] * 30)
    ended = [(number, event) for number, event in events if isinstance(event, SpeechEnded)]
    frames = 16  # the first whole number of frames that is at least 0.5 s
    assert ended == [(9 + frames, SpeechEnded(10 * FRAME, (10 + frames) * FRAME, "hangover", 0.5))]
    assert (frames - 1) * FRAME_S < 0.5 <= frames * FRAME_S and not endpoint.speaking


def test_smart_turn_is_asked_up_to_three_times_per_silence_while_its_answer_is_awaited_not_again() -> None:
    endpoint = Endpoint(SETTINGS)
    first = SilenceAsked(10 * FRAME, 1, 0.2)
    assert asked(feed(endpoint, [0.9] * 10 + [0.1] * 20)) == [first]
    decision = endpoint.answered(first, 0.06, TextEnd.UNKNOWN)
    assert decision is not None and not decision.is_over and 1.0 < decision.wait_s < 1.2
    (second,) = asked(feed(endpoint, [0.1] * 3, start=30))
    assert (second.number, second.after_s) == (2, 20 * FRAME_S), "it was due at 400 ms, when the first was not answered"
    assert endpoint.answered(second, 0.06, TextEnd.UNKNOWN) is not None
    (third,) = asked(feed(endpoint, [0.1] * 3, start=33))
    assert third.number == 3
    assert endpoint.answered(third, 0.06, TextEnd.UNKNOWN) is not None
    assert asked(feed(endpoint, [0.1] * 10, start=36)) == []


def test_a_yes_ends_the_turn_at_once_and_no_question_is_answered_twice() -> None:
    endpoint = Endpoint(SETTINGS)
    (question,) = asked(feed(endpoint, [0.9] * 10 + [0.1] * 10))
    decision = endpoint.answered(question, 0.5, TextEnd.UNKNOWN)
    assert decision is not None and decision.is_over and not endpoint.speaking
    assert endpoint.answered(question, 0.5, TextEnd.UNKNOWN) is None


def test_a_wait_that_was_chosen_ends_the_turn_when_it_is_over() -> None:
    endpoint = Endpoint(SETTINGS)
    (question,) = asked(feed(endpoint, [0.9] * 10 + [0.1] * 8))
    decision = endpoint.answered(question, 0.3, TextEnd.UNKNOWN)
    assert decision is not None and 0.4 < decision.wait_s < 0.6
    events = feed(endpoint, [0.1] * 20, start=18)
    (ended,) = [event for _, event in events if isinstance(event, SpeechEnded)]
    assert ended.kind == "chosen_hangover" and ended.after_s == decision.wait_s
    assert 0 <= (ended.sample - 10 * FRAME) / 16_000 - decision.wait_s < FRAME_S


def test_words_that_become_known_later_change_the_wait() -> None:
    endpoint = Endpoint(SETTINGS)
    assert endpoint.reread(TextEnd.FINISHED) is None, "nobody speaks"
    (question,) = asked(feed(endpoint, [0.9] * 10 + [0.1] * 8))
    assert endpoint.reread(TextEnd.FINISHED) is None, "not answered yet"
    before = endpoint.answered(question, 0.2, TextEnd.UNKNOWN)
    shorter, longer = endpoint.reread(TextEnd.FINISHED), endpoint.reread(TextEnd.UNFINISHED)
    assert before and shorter and longer and shorter.wait_s < before.wait_s < longer.wait_s == 1.2
    assert endpoint.reread(TextEnd.UNFINISHED) is None, "as before"
    assert endpoint.reread(TextEnd.FINISHED) == shorter and endpoint.speaking
    ended = [event for _, event in feed(endpoint, [0.1] * 20, start=18) if isinstance(event, SpeechEnded)]
    assert [event.kind for event in ended] == ["chosen_hangover"]


def test_a_verdict_that_comes_after_the_user_went_on_is_void() -> None:
    endpoint = Endpoint(SETTINGS)
    (first,) = asked(feed(endpoint, [0.9] * 10 + [0.1] * 8 + [0.9]))
    assert endpoint.answered(first, 0.99, TextEnd.UNKNOWN) is None and endpoint.speaking
    (again,) = asked(feed(endpoint, [0.1] * 8, start=19))
    assert again == SilenceAsked(19 * FRAME, 1, 0.2)
    assert endpoint.answered(first, 0.99, TextEnd.UNKNOWN) is None and endpoint.speaking
    decision = endpoint.answered(again, 0.99, TextEnd.UNKNOWN)
    assert decision is not None and decision.is_over


def test_without_a_yes_the_longest_hangover_ends_the_turn() -> None:
    endpoint = Endpoint(EndpointSettings(max_hangover_s=0.96))
    events = feed(endpoint, [0.9] * 5 + [0.1] * 40)
    assert events[-1][1] == SpeechEnded(5 * FRAME, 35 * FRAME, "max_hangover", 0.96)


def test_other_settings_count_from_the_next_silence_on() -> None:
    endpoint = Endpoint(EndpointSettings(mode="hangover", hangover_s=0.5))
    feed(endpoint, [0.9] * 10)
    endpoint.follow(EndpointSettings(mode="hangover", hangover_s=0.3))
    (ended,) = [event for _, event in feed(endpoint, [0.1] * 10, start=10)]
    assert isinstance(ended, SpeechEnded) and ended.after_s == 0.3


def test_weak_speech_goes_on_but_does_not_start_a_turn() -> None:
    endpoint = Endpoint(EndpointSettings(mode="hangover"))
    assert feed(endpoint, [0.4] * 20) == []
    feed(endpoint, [0.9] * 3, start=20)
    assert feed(endpoint, [0.4] * 40, start=23) == []
    assert endpoint.speaking and endpoint.last_voiced_sample == 63 * FRAME
