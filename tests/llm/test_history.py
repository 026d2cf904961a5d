from collections.abc import Sequence

from agent.llm.history import History
from agent.llm.protocol import Message

SYSTEM = Message("system", "Be brief.")
EXAMPLE = (Message("user", "Turn left."), Message("assistant", "Okay."))


def three_turns() -> History:
    history = History("Be brief.", EXAMPLE)
    for number in "123":
        history.add_user(f"question {number}")
        history.add_reply(f"answer {number}")
    return history


def test_it_holds_what_was_said_in_order() -> None:
    history = History("Be brief.")
    history.add_user(" Hello there. ")
    history.add_reply("Hi!")
    assert history.messages() == [SYSTEM, Message("user", "Hello there."), Message("assistant", "Hi!")]
    assert history.opening() == [SYSTEM]


def test_without_a_system_prompt_there_is_no_system_message() -> None:
    assert History("").messages() == []


def test_a_cut_off_utterance_goes_on_in_the_same_message() -> None:
    history = History("Be brief.")
    history.add_user("Go forward")
    history.add_reply("  ")
    history.add_user("ten meters.")
    assert history.messages() == [SYSTEM, Message("user", "Go forward ten meters.")]


def test_a_reply_keeps_its_exact_text() -> None:
    history = History("Be brief.")
    history.add_user("Hello.")
    history.add_reply("One.\n\n Two ")
    assert history.messages()[-1].content == "One.\n\n Two "


def test_what_was_given_out_does_not_change_afterwards() -> None:
    history = History("Be brief.")
    history.add_user("Go")
    before = history.messages()
    history.add_user("on.")
    assert before == [SYSTEM, Message("user", "Go")]


def test_trim_drops_the_oldest_whole_turns() -> None:
    history = three_turns()
    assert history.trim(lambda messages: len(messages) <= 6) == 2
    assert history.messages() == [SYSTEM, *EXAMPLE, Message("user", "question 3"), Message("assistant", "answer 3")]


def test_trim_keeps_a_history_that_fits() -> None:
    history = three_turns()
    before = history.messages()
    assert history.trim(lambda _: True) == 0 and history.messages() == before


def test_trim_keeps_the_last_turn_even_when_it_does_not_fit() -> None:
    history = three_turns()
    history.add_user("now")
    asked: list[Sequence[Message]] = []
    assert history.trim(lambda messages: bool(asked.append(messages))) == 3
    assert history.messages()[-1] == Message("user", "now") and len(history.messages()) == 4 and len(asked) == 4
