"""The conversation as the model is told it: what the user said and what the user really heard."""

from collections.abc import Callable, Sequence

from agent.llm.prompts import EXAMPLES, SYSTEM_PROMPT
from agent.llm.protocol import LlmEngine, Message
from agent.settings import LlmSettings

SPARE_TOKENS = 32  # for the tags around a thought and what else a template may add


def new_history(settings: LlmSettings) -> "History":
    """The start of a conversation: the user's own system prompt, or the built-in one with its examples."""
    if settings.system_prompt is not None:
        return History(settings.system_prompt)
    return History(SYSTEM_PROMPT, EXAMPLES)


class History:
    """Starts with the system prompt and, if any, examples, which are never dropped. Append-only but for `trim`, so
    that the KV cache of the turns before stays valid."""

    def __init__(self, system_prompt: str, examples: Sequence[Message] = ()) -> None:
        self._opening = [Message("system", system_prompt), *examples] if system_prompt else [*examples]
        self._turns: list[Message] = []

    def opening(self) -> list[Message]:
        """The start of every conversation: what a model can be warmed up with."""
        return list(self._opening)

    def add_user(self, text: str) -> None:
        """The user's words. Two utterances without a reply between them (a cut-off) become one message."""
        self._append("user", text.strip())

    def add_reply(self, text_heard: str) -> None:
        """What was played of the reply, in the words and the spelling of the model. If nothing was heard, nothing is
        added."""
        if text_heard.strip():
            self._append("assistant", text_heard)

    def drop_unanswered(self) -> None:
        """Forget what the user said last: it could not be answered, and must not come again with every prompt."""
        if self._turns and self._turns[-1].role == "user":
            self._turns.pop()

    def _append(self, role: str, text: str) -> None:
        if self._turns and self._turns[-1].role == role:
            text = f"{self._turns.pop().content} {text}"
        self._turns.append(Message("user" if role == "user" else "assistant", text))

    def messages(self) -> list[Message]:
        return [*self._opening, *self._turns]

    def trim(self, fits: Callable[[Sequence[Message]], bool]) -> int:
        """Drop the oldest whole turns (a user message and its reply) until `fits(messages)`; return how many were
        dropped.

        The last turn stays even when it does not fit.
        """
        dropped = 0
        while not fits(self.messages()):
            later = [at for at, message in enumerate(self._turns) if at > 0 and message.role == "user"]
            if not later:
                break
            del self._turns[: later[0]]
            dropped += 1
        return dropped

    def make_room(self, llm: LlmEngine, settings: LlmSettings) -> int:
        """Forget the oldest turns when the prompt leaves no room for the reply: down to half, so that it is not every
        turn's fate. Returns how many were dropped."""
        thinking = settings.thinking_budget(llm.context_tokens)
        room = llm.context_tokens - thinking - settings.max_tokens - SPARE_TOKENS
        if llm.prompt_tokens(self.messages()) <= room:
            return 0
        return self.trim(lambda messages: llm.prompt_tokens(messages) <= room // 2)
