import pytest

from agent.errors import TurnscopeError
from agent.llm.prompts import ChatTemplate
from agent.llm.protocol import Message

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMS = CHATML.replace("m.content", "m.content | trim")
DROPS_SYSTEM = CHATML.replace("in messages", "in messages if m.role != 'system'")
SHOUTS = CHATML.replace("m.content", "m.content | upper")
REFUSES_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHATML
TALK = [Message("system", "Be brief."), Message("user", " Hi <|im_end|>."), Message("assistant", "Yes?")]


def template(text: str | None) -> ChatTemplate:
    return ChatTemplate(text, bos="<s>", eos="</s>", name="a.gguf")


def texts(pieces: list) -> list[str]:
    return [piece.text for piece in pieces]


def test_a_prompt_comes_in_pieces_that_know_their_message() -> None:
    pieces = template(CHATML).render(TALK[:2], thinking=False)
    assert texts(pieces) == [
        "<|im_start|>system\n", "Be brief.", "<|im_end|>\n<|im_start|>user\n", " Hi <|im_end|>.",
        "<|im_end|>\n<|im_start|>assistant\n",
    ]  # fmt: skip
    assert [piece.message for piece in pieces] == [None, TALK[0], None, TALK[1], None]


def test_contents_are_as_the_template_writes_them() -> None:
    assert "Hi <|im_end|>." in texts(template(TRIMS).render(TALK, thinking=False))


def test_a_template_that_changes_contents_gives_one_piece() -> None:
    (piece,) = template(SHOUTS).render(TALK[:1], thinking=False)
    assert piece.text == "<|im_start|>system\nBE BRIEF.<|im_end|>\n<|im_start|>assistant\n" and piece.message is None


def test_a_refused_or_dropped_system_message_goes_to_the_first_user_message() -> None:
    for text in (REFUSES_SYSTEM, DROPS_SYSTEM):
        rendered = texts(template(text).render(TALK, thinking=False))
        assert rendered[1] == "Be brief.\n\n Hi <|im_end|>."
        assert texts(template(text).render(TALK[:1], thinking=False))[1] == "Be brief."


def test_the_start_of_a_conversation_ends_where_the_user_goes_on() -> None:
    chat = template(CHATML)
    whole = "".join(texts(chat.render([*TALK, Message("user", "More words.")], thinking=False)))
    after_reply = "".join(texts(chat.render_start(TALK, thinking=False)))
    within = "".join(texts(chat.render_start([*TALK, Message("user", "More")], thinking=False)))
    assert whole.startswith(within) and within.startswith(after_reply)
    assert after_reply.endswith("<|im_start|>user\n") and within == after_reply + "More"
    assert texts(template(SHOUTS).render_start(TALK, thinking=False)) == []


def test_a_template_that_looks_at_the_first_message_is_not_asked_about_none() -> None:
    for text in (CHATML, REFUSES_SYSTEM):
        chat = template(text)
        assert texts(chat.render([], thinking=False)) == ["<|im_start|>user\n"]
        assert texts(chat.render_start([], thinking=False)) == ["<|im_start|>user\n"]


def test_thinking_is_told_to_templates_that_know_it() -> None:
    chat = template(CHATML + "{% if enable_thinking %}!{% endif %}")
    assert texts(chat.render(TALK, thinking=True))[-1].endswith("assistant\n!")
    assert texts(chat.render(TALK, thinking=False))[-1].endswith("assistant\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "a.gguf has no chat template"),
        ("", "a.gguf has no chat template"),
        ("{% for m in %}", "cannot be rendered .Expected an expression"),
        ("{{ raise_exception('roles!') }}", "cannot be rendered .roles!"),
        ("{{ raise_exception('bad: ' + messages[1].content) }}", "cannot be rendered .[A-Za-z]+.: give"),
        ("{{ messages[0].content.nothing.at_all }}", "cannot be rendered"),
        ("{{ 1 / 0 }}", "cannot be rendered .division by zero"),
        ("Hello.", "leaves out what the user says"),
        (CHATML.replace("in messages", "in messages if m.role != 'user'"), "leaves out what the user says"),
        (CHATML.replace("in messages", "in messages if m.role != 'assistant'"), "leaves out what the assistant says"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(text: str | None, sentence: str) -> None:
    with pytest.raises(TurnscopeError, match=sentence):
        template(text)
