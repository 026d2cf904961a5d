"""One event of a streamed chat completion, and what a server says in it about its own work."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from profiling.trace import vocabulary as v
from profiling.trace.timeline import Attribute

_PROMPT = ("prompt_tokens", "cached_tokens", "evaluated_tokens")
_DRAFTS = ("drafted_tokens", "accepted_tokens")
_MOST_TOKENS, _MOST_S = 1 << 24, 24 * 3600.0  # what says more is not believed


@dataclass(frozen=True)
class Figures:
    """What a server has said of one request so far; None is what it has not said.

    From `usage` (OpenAI; vLLM also in every event, and cached tokens with --enable-prompt-tokens-details), `timings`
    (llama-server) and `metrics` (vLLM with --enable-per-request-metrics). Prefill is the server's time from taking up
    the request to its first token, decode from there to the last; neither contains its queue or the network. Counts
    that cannot be true together are None.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    evaluated_tokens: int | None = None
    output_tokens: int | None = None
    thought_tokens: int | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None

    def updated(self, later: "Figures") -> "Figures":
        """What is known after another event: its own figures, and these where it has none. Of prompt, cached and
        evaluated tokens two give the third; none of them is known when one event says of them what cannot be."""
        known: dict[str, Any] = vars(self) | {name: value for name, value in vars(later).items() if value is not None}
        prompt, cached, evaluated = (known[name] for name in _PROMPT)
        if not _are_possible(*(getattr(later, name) for name in _PROMPT)) or (
            prompt is not None and max(cached or 0, evaluated or 0) > prompt
        ):
            known |= dict.fromkeys(_PROMPT)
        elif prompt is None and cached is not None and evaluated is not None:
            known["prompt_tokens"] = cached + evaluated
        elif prompt is not None and cached is None and evaluated is not None:
            known["cached_tokens"] = prompt - evaluated
        elif prompt is not None and cached is not None:
            known["evaluated_tokens"] = prompt - cached
        if known["drafted_tokens"] is not None and (known["accepted_tokens"] or 0) > known["drafted_tokens"]:
            known |= dict.fromkeys(_DRAFTS)
        return Figures(**known)

    def of_output(self, *, least: int, most: int) -> "Figures":
        """Without counts of the output that cannot be: of it came `least` tokens, and at most `most` were allowed."""
        if self.output_tokens is not None and not least <= self.output_tokens <= most:
            return replace(self, output_tokens=None, thought_tokens=None)
        if (self.thought_tokens or 0) > (most if self.output_tokens is None else self.output_tokens):
            return replace(self, thought_tokens=None)
        return self

    def then(self, following: "Figures") -> "Figures":
        """Of two requests for one reply: the prompt is the first one's, work and output are both's, and what only one
        of them tells is not known."""

        def both(name: str) -> Any:
            one, other = getattr(self, name), getattr(following, name)
            return None if one is None or other is None else one + other

        return replace(self, **{field.name: both(field.name) for field in fields(self) if field.name not in _PROMPT})

    def attributes(self) -> dict[str, Attribute]:
        """As span attributes, those that are known."""
        named = {
            v.INPUT_TOKENS: self.prompt_tokens,
            v.CACHED_TOKENS: self.cached_tokens,
            v.LLM_EVALUATED_TOKENS: self.evaluated_tokens,
            v.OUTPUT_TOKENS: self.output_tokens,
            v.UNSPOKEN_TOKENS: self.thought_tokens,
            v.LLM_SERVER_PREFILL_S: self.prefill_s,
            v.LLM_SERVER_DECODE_S: self.decode_s,
            v.LLM_DRAFTED_TOKENS: self.drafted_tokens,
            v.LLM_ACCEPTED_TOKENS: self.accepted_tokens,
        }
        return {name: value for name, value in named.items() if value is not None}


_NOTHING = Figures()


@dataclass(frozen=True)
class Chunk:
    """What an event adds to the reply: visible text (thought between tags included), thought that the server keeps
    apart, and why generation ended, in the event in which it does. `waited` says that it was waited for: another was
    there already, so that when it came is not known."""

    content: str
    thought: str
    finish_reason: str | None
    figures: Figures
    waited: bool = True

    @classmethod
    def of(cls, data: Mapping[str, Any], *, waited: bool = True) -> "Chunk":
        """Read an event's JSON object; parts that are absent or of an unexpected type say nothing."""
        choices = data.get("choices")
        choice = mapping(choices[0]) if isinstance(choices, list) and choices else {}
        delta = mapping(choice.get("delta"))
        finish_reason = choice.get("finish_reason")
        return cls(
            content=_text(delta, "content"),
            thought=_text(delta, "reasoning_content") or _text(delta, "reasoning"),
            finish_reason=finish_reason if isinstance(finish_reason, str) else None,
            figures=_figures(data),
            waited=waited,
        )

    def goes_beyond(self, output_tokens: int) -> bool:
        """Whether it brings anything of the reply, after an event that counted so many tokens."""
        return bool(self.content or self.thought) or (self.figures.output_tokens or 0) > output_tokens


def _figures(data: Mapping[str, Any]) -> Figures:
    usage, timings, metrics = (mapping(data.get(key)) for key in ("usage", "timings", "metrics"))
    if not (usage or timings or metrics):
        return _NOTHING
    drafts = mapping(metrics.get("speculative_decoding"))
    return Figures(
        prompt_tokens=_count(usage, "prompt_tokens"),
        cached_tokens=_first(
            _count(mapping(usage.get("prompt_tokens_details")), "cached_tokens"), _count(timings, "cache_n")
        ),
        evaluated_tokens=_count(timings, "prompt_n"),
        output_tokens=_first(_count(usage, "completion_tokens"), _count(timings, "predicted_n")),
        thought_tokens=_count(mapping(usage.get("completion_tokens_details")), "reasoning_tokens"),
        prefill_s=_first(_seconds(timings, "prompt_ms"), _seconds(metrics, "time_to_first_token_ms")),
        decode_s=_first(_seconds(timings, "predicted_ms"), _seconds(metrics, "generation_time_ms")),
        drafted_tokens=_first(_count(timings, "draft_n"), _count(drafts, "num_draft_tokens")),
        accepted_tokens=_first(_count(timings, "draft_n_accepted"), _count(drafts, "num_accepted_draft_tokens")),
    )


def mapping(value: Any) -> Mapping[str, Any]:
    """The JSON object that a value is; an empty one for other values."""
    return value if isinstance(value, dict) else {}


def _text(delta: Mapping[str, Any], key: str) -> str:
    """A text, or those of a list of parts."""
    value = delta.get(key)
    parts = [mapping(part).get("text") for part in value] if isinstance(value, list) else [value]
    return "".join(part for part in parts if isinstance(part, str))


def token_count(value: Any) -> int | None:
    """A number of tokens that a model may have to do with."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else None


def _count(of: Mapping[str, Any], key: str) -> int | None:
    return token_count(of.get(key))


def _seconds(of: Mapping[str, Any], key: str) -> float | None:
    """Of milliseconds."""
    value = of.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1000 * _MOST_S:
        return None
    return value / 1000


def _are_possible(prompt: int | None, cached: int | None, evaluated: int | None) -> bool:
    """Whether the counts of one event agree, where it has all three."""
    return prompt is None or cached is None or evaluated is None or cached + evaluated == prompt


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
