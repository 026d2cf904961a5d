"""What a server is asked: the body of a chat completion, and how long its prompt will be."""

import math
from collections.abc import Collection, Sequence
from typing import Any

from agent.llm.protocol import Message

GRACE_TOKENS = 8  # by which a server that keeps to the thinking budget itself may count otherwise

# What a server may not know, in the order in which it is left out when the server's refusal names it.
OPTIONAL_FIELDS = (
    "continuous_usage_stats",
    "stream_options",
    "timings_per_token",
    "chat_template_kwargs",
    "thinking_token_budget",
    "thinking_budget_tokens",
    "repeat_penalty",
    "repetition_penalty",
    "temperature",
    "seed",
)

_BYTES_PER_TOKEN = 3.5
_TOKENS_PER_MESSAGE = 6
_MARGIN = 1.05


def allowed_tokens(max_tokens: int, thinking_tokens: int) -> int:
    """What a server may generate for `max_tokens` visible ones."""
    return max_tokens + (thinking_tokens + GRACE_TOKENS if thinking_tokens > 0 else 0)


def chat_body(
    model: str,
    messages: Sequence[Message],
    *,
    thinking_tokens: int,
    max_tokens: int,
    temperature: float,
    seed: int,
    without: Collection[str] = (),
) -> dict[str, Any]:
    """The request of a streamed completion, without the optional fields that are named.

    Usage is asked for in every event (`continuous_usage_stats` of vLLM, `timings_per_token` of llama-server), so that
    tokens can be counted as they come. Penalties are off by llama.cpp's and by vLLM's name: temperature 0 is greedy.
    """
    usage = {"include_usage": True, "continuous_usage_stats": True}
    optional: dict[str, Any] = {
        "temperature": temperature,
        "seed": seed,
        "repeat_penalty": 1.0,
        "repetition_penalty": 1.0,
        "stream_options": {name: on for name, on in usage.items() if name not in without},
        "timings_per_token": True,
        "chat_template_kwargs": {"enable_thinking": thinking_tokens > 0},
    }
    if thinking_tokens > 0:
        optional |= {"thinking_token_budget": thinking_tokens, "thinking_budget_tokens": thinking_tokens}
    return {
        "model": model,
        "messages": [{"role": message.role, "content": message.content} for message in messages],
        "max_tokens": allowed_tokens(max_tokens, thinking_tokens),
        "stream": True,
    } | {field: value for field, value in optional.items() if field not in without}


def refused_field(named: Collection[str], without: Collection[str]) -> str | None:
    """Of the fields that a server's refusal names, the one that can be left out and was not yet."""
    return next((field for field in OPTIONAL_FIELDS if field in named and field not in without), None)


class PromptEstimate:
    """How many tokens messages take as a prompt, from their UTF-8 bytes: 3.5 a token and 6 tokens a message, until a
    server has told the length of a prompt; then in that prompt's proportion. 5 % are added: rather too many."""

    def __init__(self) -> None:
        self._scale = 1.0

    def learn(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """These messages were a prompt of that length."""
        self._scale = prompt_tokens / self._unscaled(messages)

    def tokens(self, messages: Sequence[Message]) -> int:
        return math.ceil(self._scale * self._unscaled(messages) * _MARGIN)

    def _unscaled(self, messages: Sequence[Message]) -> float:
        content_bytes = sum(len(message.content.encode("utf-8", errors="ignore")) for message in messages)
        return content_bytes / _BYTES_PER_TOKEN + _TOKENS_PER_MESSAGE * max(1, len(messages))
