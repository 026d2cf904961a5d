"""Models as wide as the big ones but of one or a few layers: the laws that predict the big ones are fitted to them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from agent.experiments.full_size.effort import Effort
from agent.experiments.full_size.shapes import GemmaShape, NemotronShape, VoxCpmShape

T = TypeVar("T")
_FEW = (1, 2)
_SHORT_CONTEXT = 4096
_FILLED_VOCABULARY = 2048  # holds all that the voice's tokenizer knows
_PART_OF_VOCABULARY = 8
_NARROWEST_ENCODER = 8
_PROMPTS_TOKENS, _PROMPTS, _PASSES = (16, 64), 2, 4


def of_recogniser(shape: NemotronShape) -> list[NemotronShape]:
    return [replace(shape, layers=layers) for layers in _few(shape.layers)]


def of_language_model(shape: GemmaShape) -> list[GemmaShape]:
    """Of one local layer and a global one, which llama.cpp needs both; of one local layer more; and with some of the
    vocabulary, whose rows the output head multiplies."""
    small = narrow(shape)
    return [
        small,
        replace(small, layers=3, period=3),
        replace(small, vocabulary=shape.vocabulary // _PART_OF_VOCABULARY),
    ]


def narrow(shape: GemmaShape) -> GemmaShape:
    """The smallest, with few tokens: it measures llama.cpp's arithmetic too."""
    return replace(shape, layers=2, period=2, vocabulary=0, context=_SHORT_CONTEXT)


def of_voice(shape: VoxCpmShape) -> list[VoxCpmShape]:
    """Every stack has one layer, then two; the VAE's decoder is a quarter as wide, then half. Its encoder hears voice
    prompts only, of which there are none, and is narrow in both."""
    stacks = zip(_few(shape.layers), _few(shape.residual_layers), _few(shape.local_layers), (4, 2), strict=True)
    return [
        replace(
            shape,
            layers=layers,
            residual_layers=residual,
            local_layers=local,
            vae_decoder_width=shape.vae_decoder_width // part,
            vae_encoder_width=max(_NARROWEST_ENCODER, shape.vae_encoder_width // 4),
            vocabulary=min(_FILLED_VOCABULARY, shape.vocabulary),
        )
        for layers, residual, local, part in stacks
    ]


def short(effort: Effort) -> Effort:
    """Enough of everything that the big ones are asked; nothing that is only checked."""
    return replace(
        effort,
        asr_passes=_PASSES,
        llm_prompts=tuple((tokens, _PROMPTS) for tokens in _PROMPTS_TOKENS),
        tts_patches=(2, 3),
        tts_checked=0,
    )


def there_and_back(items: Sequence[T]) -> Iterator[T]:
    """An order in which a machine that gets slower or faster tilts no line through the sizes."""
    yield from items
    yield from reversed(items[:-1])


def _few(layers: int) -> tuple[int, ...]:
    return tuple(min(few, layers) for few in _FEW)
