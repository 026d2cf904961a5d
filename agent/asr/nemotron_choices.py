"""Which of a model's attention contexts and languages are wanted; what it does not know is refused with the list."""

from collections.abc import Mapping, Sequence

from agent.errors import TurnscopeError

FRAME_MS = 80  # of sound per encoder frame
CHUNKS_MS = (80, 160, 320, 560, 1120)


def right_context(chunk_ms: int) -> int:
    """Frames that a chunk's first frame looks ahead, to the chunk's end. Raises TurnscopeError for an unknown size."""
    if chunk_ms not in CHUNKS_MS:
        raise TurnscopeError(f"There is no chunk of {chunk_ms} ms: choose {_either(CHUNKS_MS)}.")
    return chunk_ms // FRAME_MS - 1


def context(known: Sequence[Sequence[int]], chunk_ms: int, model: str) -> list[int]:
    """The model's [left, right] attention context for a chunk size. Raises TurnscopeError when it has none."""
    right = right_context(chunk_ms)
    bounded = {ahead: [left, ahead] for left, ahead in known if left > 0}
    if right not in bounded:
        can_do = chunks_ms(known)
        advice = f"choose {_either(can_do)}" if can_do else "it is no cache-aware streaming model"
        raise TurnscopeError(f"The model {model} has no chunk of {chunk_ms} ms: {advice}.")
    return bounded[right]


def chunks_ms(known: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The chunk sizes for which there is one of the [left, right] contexts, with a bounded left one."""
    bounded = {ahead for left, ahead in known if left > 0}
    return tuple(size for size in CHUNKS_MS if right_context(size) in bounded)


def language(known: Mapping[str, int] | None, wanted: str, model: str) -> str:
    """The key of the model's prompt dictionary that `wanted` means: itself, in any case; or for a bare language (`de`)
    its only region, its own (`de-DE`) or American English. A model without prompts (None) knows English only.

    Raises TurnscopeError for anything else, and for a dictionary without languages.
    """
    base = wanted.partition("-")[0].lower()
    if known is None:
        if base != "en":
            raise TurnscopeError(f"The model {model} knows English (en) only, not {wanted!r}.")
        return "en"
    if not known:
        raise TurnscopeError(f"The model {model} is told the language, but its file names none: choose another file.")
    regions = [key for key in known if key.partition("-")[0].lower() == base]
    meant = [key for key in known if key.lower() == wanted.lower()]
    if not meant and wanted.lower() == base:
        own = "en-us" if base == "en" else f"{base}-{base}"
        meant = regions if len(regions) == 1 else [key for key in regions if key.lower() == own]
    if not meant:
        raise TurnscopeError(
            f"The model {model} does not know the language {wanted!r}: choose {_either(sorted(known))}."
        )
    return meant[0]


def _either(choices: Sequence[object]) -> str:
    *most, last = map(str, choices)
    return f"{', '.join(most)} or {last}" if most else last
