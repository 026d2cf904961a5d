"""What of an error's text are the conversation's own words."""

import json

import pytest

from agent.llm.echo import has_echo, without_echo
from agent.llm.protocol import Message

WORDS = 'Call Zoë\'s "doctor" about the 😀\nsurgery tomorrow.'
SAID = [Message("system", "You are a companion in a spoken conversation."), Message("user", WORDS)]


@pytest.mark.parametrize(
    "text",
    [
        f"bad: {WORDS}",
        f"bad: {WORDS.upper()}",
        f"bad: {WORDS!r}",
        f"bad: {json.dumps(WORDS)}",
        f"bad: {json.dumps(json.dumps(WORDS))}",
        "bad: Call Zo&euml;&#x27;s &quot;doctor&quot;  about the",
        "bad: ... surgery tomo",
    ],
)
def test_words_are_known_again_however_they_are_written(text: str) -> None:
    assert has_echo(text, SAID) and without_echo(text, SAID).strip("\"' .") == "bad:"


@pytest.mark.parametrize("text", ["", "Conversation roles must alternate.", "the day after tomorrow", "surgery"])
def test_what_shares_a_word_is_no_echo(text: str) -> None:
    assert not has_echo(text, SAID)


def test_a_short_message_counts_as_a_whole() -> None:
    short = [Message("user", "Call Bob."), Message("assistant", ""), Message("user", "hi")]
    assert has_echo("got 'Call Bob.'", short) and has_echo("got hi", short)
    assert not has_echo("recall Bobby: this", short)


def test_the_rest_of_the_text_is_left() -> None:
    text = "'seed' is bad: Surgery  tomorrow in 'top_k'"
    assert without_echo(text, SAID) == "'seed' is bad: in 'top_k'"
