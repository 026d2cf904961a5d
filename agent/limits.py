"""How long each engine may give nothing, from the settings and from what it took while it was warmed up."""

from dataclasses import dataclass

from agent.settings import LimitSettings
from agent.watch import Bound

USUAL_S = 20.0  # longer than anyone waits for in a conversation
MARGIN = 10.0  # of the longest wait during warm-up: a later prompt may be several times longer


@dataclass(frozen=True)
class WarmUp:
    """The longest time for which each engine gave nothing while it was warmed up, in seconds."""

    asr_s: float
    llm_s: float
    tts_s: float


def bounds(settings: LimitSettings, warm_up: WarmUp, *, llm_reentrant: bool, tts_reentrant: bool) -> dict[str, Bound]:
    """By the name of the worker."""
    return {
        "asr": _bound(settings.asr_s, warm_up.asr_s, "the recogniser", "limits.asr_s"),
        "smart-turn": _bound(settings.smart_turn_s, 0.0, "smart-turn", "limits.smart_turn_s"),
        "llm": _bound(settings.llm_s, warm_up.llm_s, "the language model", "limits.llm_s", llm_reentrant),
        "tts": _bound(settings.tts_s, warm_up.tts_s, "the voice", "limits.tts_s", tts_reentrant),
    }


def _bound(given_s: float | None, warm_up_s: float, name: str, setting: str, reentrant: bool = True) -> Bound:
    limit_s = max(USUAL_S, MARGIN * warm_up_s) if given_s is None else given_s
    return Bound(limit_s, reentrant=reentrant, name=name, setting=setting)
