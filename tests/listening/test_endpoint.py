"""The endpoint's state machine, frame by frame on the sample clock."""

from agent.listening.endpoint import Endpoint, EndpointEvent, SilenceAsked, SpeechEnded, SpeechStarted
from agent.listening.vad import VadFrame
from agent.settings import EndpointSettings

FRAME = 512
FRAME_S = FRAME / 16_000


def feed(endpoint: Endpoint, probabilities: list[float], start: int = 0) -> list[tuple[int, EndpointEvent]]:
    events: list[tuple[int, EndpointEvent]] = []
    for number, probability in enumerate(probabilities, start):
        frame = VadFrame(number * FRAME, (number + 1) * FRAME, probability)
        events += [(number, event) for event in endpoint.push(frame)]
    return events


def test_a_click_is_not_speech_and_speech_starts_where_it_began() -> None:
    endpoint = Endpoint(EndpointSettings())
    assert feed(endpoint, [0.0, 0.9, 0.9, 0.0, 0.0]) == []
    assert feed(endpoint, [0.9, 0.9, 0.9], start=5) == [(7, SpeechStarted(5 * FRAME))]
    assert endpoint.speaking


def test_hangover_alone_ends_the_turn_after_a_fixed_silence() -> None:
    endpoint = Endpoint(EndpointSettings(mode="hangover", hangover_s=0.5))
    events = feed(endpoint, [0.9] * 10 + [0.1] * 30)
    ended = [(number, event) for number, event in events if isinstance(event, SpeechEnded)]
    frames = 16  # the first whole number of frames that is at least 0.5 s
    assert ended == [(9 + frames, SpeechEnded(10 * FRAME, (10 + frames) * FRAME, "hangover"))]
    assert (frames - 1) * FRAME_S < 0.5 <= frames * FRAME_S and not endpoint.speaking


def test_smart_turn_is_asked_once_per_silence_and_its_yes_ends_the_turn() -> None:
    endpoint = Endpoint(EndpointSettings())
    events = feed(endpoint, [0.9] * 10 + [0.1] * 20)
    assert [event for _, event in events if isinstance(event, SilenceAsked)] == [SilenceAsked(10 * FRAME)]
    assert endpoint.speaking
    question = SilenceAsked(10 * FRAME)
    assert not endpoint.finished(question, 0.49) and endpoint.speaking
    assert endpoint.finished(question, 0.5) and not endpoint.speaking


def test_a_verdict_that_comes_after_the_user_went_on_is_void() -> None:
    endpoint = Endpoint(EndpointSettings())
    feed(endpoint, [0.9] * 10 + [0.1] * 8 + [0.9])
    first = SilenceAsked(10 * FRAME)
    assert not endpoint.finished(first, 0.99) and endpoint.speaking
    again = feed(endpoint, [0.1] * 8, start=19)
    assert [event for _, event in again] == [SilenceAsked(19 * FRAME)]
    assert not endpoint.finished(first, 0.99) and endpoint.speaking
    assert endpoint.finished(SilenceAsked(19 * FRAME), 0.99)


def test_without_a_yes_the_longest_hangover_ends_the_turn() -> None:
    endpoint = Endpoint(EndpointSettings(max_hangover_s=0.96))
    events = feed(endpoint, [0.9] * 5 + [0.1] * 40)
    assert events[-1][1] == SpeechEnded(5 * FRAME, 35 * FRAME, "max_hangover")


def test_weak_speech_goes_on_but_does_not_start_a_turn() -> None:
    endpoint = Endpoint(EndpointSettings(mode="hangover"))
    assert feed(endpoint, [0.4] * 20) == []
    feed(endpoint, [0.9] * 3, start=20)
    assert feed(endpoint, [0.4] * 40, start=23) == []
    assert endpoint.speaking and endpoint.last_voiced_sample == 63 * FRAME
