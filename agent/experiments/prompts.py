"""Prompts of a wanted length, none of which the KV cache knows."""

from agent.experiments.full_size.words import phrase
from agent.llm.protocol import LlmEngine, Message, Prefill

_APART = 7  # words between the beginnings of two prompts


def prompt(engine: LlmEngine, tokens: int, number: int) -> list[Message]:
    """One message that makes a prompt of at most so many tokens, or of one word; each `number` begins with another
    word."""

    def of_words(count: int) -> list[Message]:
        return [Message("user", phrase(count, number * _APART))]

    words = max(1, tokens - engine.prompt_tokens(of_words(1)) + 1)
    while words > 1 and engine.prompt_tokens(of_words(words)) > tokens:
        words -= 1
    return of_words(words)


def prefill(engine: LlmEngine, tokens: int, number: int) -> Prefill:
    """Evaluate such a prompt."""
    items = engine.generate(prompt(engine, tokens, number), thinking_tokens=0, max_tokens=1, should_stop=lambda: False)
    return next(item for item in items if isinstance(item, Prefill))
