"""VoxCPM2 as a streaming synthesiser: 160 ms patches at 48 kHz from a loop of two language models, a diffusion module,
a local encoder and a causal VAE decoder whose state is kept from patch to patch.

A phrase is read whole (prefill), then every patch is one turn of the loop. The library runs the loop; this engine
chooses its inputs, times it by part and ends it.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import closing
from copy import copy
from functools import cached_property
from importlib.util import find_spec
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import torch

from agent.device_times import moments
from agent.errors import TurnscopeError
from agent.pytorch import use_threads
from agent.tts.protocol import Patch, Setup, ShouldStop
from agent.tts.voxcpm_checkpoint import VoxCPM2Model, load
from agent.tts.voxcpm_stream import PATCH_PARTS, SETUP_PARTS, PhraseStream
from agent.tts.voxcpm_timing import Lap, Stopwatch, by_part
from agent.tts.voxcpm_voice import Prompt, Voice
from agent.tts.word_times import word_ends
from profiling.trace import vocabulary as v
from profiling.trace.clock import Clock
from profiling.trace.timeline import Attribute

MOST_STEPS, MOST_GUIDANCE = 100, 10.0
_PATCHES_PER_TOKEN, _PATCHES_MORE = 6, 10  # the library's cap on the length of a phrase
_WARM_UP_PATCHES = 2  # the first has no step of the language models
_NORMALISER_PACKAGES = ("wetext", "inflect", "regex")


class VoxCpmEngine:
    """A `TtsEngine`. One phrase at a time per model: a new one ends an older one that is still suspended, also that of
    another engine on the same model.

    **What the times cover.** Set-up ends where prefill does, and the first patch begins there; it has no stop check and
    no step of the language models, whose parts are 0. A later patch begins when the consumer asks for it, on a GPU when
    the device gets to it, with the stop check and the two steps that follow the patch before. So the time that the
    consumer holds the generator is no patch's. The stop check that ends a phrase is not recorded; a phrase that reaches
    its cap ends without one. Part by part, the times sum to their interval. `Setup.units` counts the text tokens of the
    phrase itself.

    **Where words end** is an estimate: the phrase's audio shared by the words' letters, since the model does not tell.
    """

    def __init__(
        self,
        checkpoint: Path | VoxCPM2Model,
        *,
        clock: Clock,
        name: str | None = None,
        device: str = "cpu",
        threads: int | None = None,
        diffusion_steps: int = 10,
        guidance: float = 2.0,
        voice: str | None = None,
        reference_wav: Path | None = None,
        prompt_wav: Path | None = None,
        prompt_text: str | None = None,
        seed: int = 0,
        compiled: bool = False,
        max_patches: int | None = None,
        normalize: bool = False,
    ) -> None:
        """Load a checkpoint directory onto `device`, or take a model that is loaded (several engines may share one;
        `device` and `compiled` are then those of the model).

        `threads` are PyTorch's, of whichever thread the phrase is computed on. `diffusion_steps` (2 to 100) are Euler
        steps per patch. `guidance` (0 to 10) is the weight of classifier-free guidance: at 1 the diffusion follows what
        the language models made of the text, beyond it is pushed further that way, and at 0 it ignores them and with
        them the text. `voice` describes the voice in words; the
        recordings are described at `Voice`. A phrase sounds the same whenever it is said: its noise starts with `seed`.
        `max_patches` bounds a phrase beside the library's own cap, 6 patches per text token and 10 more. `normalize`
        runs the library's text normaliser. Raises TurnscopeError for settings that do not serve, for a checkpoint that
        is not a whole VoxCPM2, and for a device that is not there.
        """
        _check_steps(diffusion_steps)
        _check_settings(threads, guidance, seed, max_patches, normalize)
        self._voice = Voice(voice, reference_wav, prompt_wav, prompt_text)
        self._voice.check()
        if isinstance(checkpoint, VoxCPM2Model):
            self.model, self._model = name or "voxcpm2", checkpoint
        else:
            self.model, self._model = name or checkpoint.name, load(checkpoint, device, compiled=compiled)
        self.sample_rate: int = self._model.sample_rate
        self.attributes: Mapping[str, Attribute] = {
            v.TTS_DIFFUSION_STEPS: diffusion_steps,
            v.TTS_GUIDANCE: guidance,
            v.TTS_SEED: seed,
        }
        self._prompt = None if self._voice.is_recorded else Prompt(None)  # encoded when first needed
        self._prompt_positions = self._voice.positions(self._model)
        self._clock = clock
        self._threads = threads
        self.diffusion_steps = diffusion_steps
        self._guidance = guidance
        self._seed = seed
        self._max_patches = max_patches
        self._normalize = normalize

    def with_diffusion_steps(self, steps: int) -> "VoxCpmEngine":
        _check_steps(steps)
        other = copy(self)
        other.diffusion_steps, other.attributes = steps, {**self.attributes, v.TTS_DIFFUSION_STEPS: steps}
        return other

    def synthesise(self, text: str, should_stop: ShouldStop) -> Iterator[Setup | Patch]:
        """See the protocol. When `should_stop` turns true inside a patch, it ends within one forward pass of a module,
        without that patch; during set-up there is no Setup. Raises TurnscopeError when the phrase and the voice prompt
        do not fit the model's KV cache."""
        PhraseStream.end_open(self._model)
        use_threads(self._threads)
        watch = Stopwatch(moments(torch.device(self._model.device), self._clock))
        phrase = self._readable(text, watch)
        if not phrase:
            yield self._setup(watch.stop(), 0, word_ends(text, "", [0]))
            return
        tokens = len(self._model.text_tokenizer(phrase))
        if should_stop():
            return
        with closing(self._open(phrase, tokens, watch, should_stop)) as stream:
            for number in range(stream.max_patches):
                if number > 0:
                    use_threads(self._threads)  # others may have computed on this thread meanwhile
                    watch.begin("stop_check")
                samples = stream.next_patch()
                if samples is None:
                    return
                laps = watch.stop()
                if number == 0:
                    setup = list(takewhile(lambda lap: lap.part in SETUP_PARTS, laps))
                    yield self._setup(setup, tokens, word_ends(text, "", [1]))
                    laps = laps[len(setup) :]
                if should_stop() or stream.closed:
                    return
                parts_ns = by_part(laps, PATCH_PARTS)
                yield Patch(samples, laps[0].start_ns, laps[-1].end_ns, parts_ns, stream.take_forwards())

    def warm_up(self) -> None:
        """Encode the voice prompt, load the normaliser, and run every part of the loop."""
        items = self.synthesise("This is how the voice is warmed up.", lambda: False)
        for _ in islice(items, 1 + _WARM_UP_PATCHES):
            pass
        PhraseStream.end_open(self._model)

    def _readable(self, text: str, watch: Stopwatch) -> str:
        """The text as the model is to read it; empty when there is nothing to say. The time is then the tokeniser's."""
        watch.begin("tokenise")
        phrase = " ".join(text.split())
        if self._normalize and _can_be_said(phrase):
            watch.begin("normalise")
            phrase = self._normalised(phrase)
            watch.begin("tokenise")
        return phrase if _can_be_said(phrase) else ""

    def _open(self, phrase: str, tokens: int, watch: Stopwatch, should_stop: ShouldStop) -> PhraseStream:
        most_patches = self._most_patches(phrase, tokens)
        if self._prompt is None:
            watch.begin("prompt")
            self._prompt = self._voice.encode(self._model)
            watch.begin("tokenise")
        return PhraseStream(
            self._model,
            watch,
            should_stop,
            text=self._voice.text(phrase),
            prompt=self._prompt,
            diffusion_steps=self.diffusion_steps,
            guidance=self._guidance,
            max_patches=most_patches,
            seed=self._seed,
        )

    def _most_patches(self, phrase: str, tokens: int) -> int:
        text = self._voice.said_before + self._voice.text(phrase)
        read = len(self._model.text_tokenizer(text)) + 1 + self._prompt_positions
        positions = self._model.config.max_length
        if read >= positions:
            raise TurnscopeError(
                f"The phrase and the voice prompt take {read} positions, but {self.model} has {positions}: give a "
                "shorter phrase or a shorter recording of the voice."
            )
        cap = min(_PATCHES_PER_TOKEN * tokens + _PATCHES_MORE, positions - read)
        return cap if self._max_patches is None else min(cap, self._max_patches)

    def _normalised(self, phrase: str) -> str:
        from voxcpm.utils.text_normalize import clean_text  # its package is needed only here

        cleaned = clean_text(phrase).strip()  # it fails on a space at the end of Chinese
        return self._normaliser.normalize(cleaned).strip() if cleaned else ""

    @cached_property
    def _normaliser(self) -> Any:
        from voxcpm.utils.text_normalize import TextNormalizer

        return TextNormalizer()

    def _setup(self, laps: list[Lap], units: int, ends: tuple[float, ...]) -> Setup:
        parts = SETUP_PARTS if self._normalize else SETUP_PARTS[1:]
        return Setup(laps[0].start_ns, laps[-1].end_ns, by_part(laps, parts), units, ends)


def _can_be_said(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _check_steps(diffusion_steps: int) -> None:
    if diffusion_steps == 1:
        raise TurnscopeError(
            "One diffusion step gives noise, since the solver skips the first: choose 2 to "
            f"{MOST_STEPS} diffusion steps."
        )
    if not 2 <= diffusion_steps <= MOST_STEPS:
        raise TurnscopeError(f"{diffusion_steps} diffusion steps are not possible: choose 2 to {MOST_STEPS}.")


def _check_settings(threads: int | None, guidance: float, seed: int, max_patches: int | None, normalize: bool) -> None:
    if not (math.isfinite(guidance) and 0 <= guidance <= MOST_GUIDANCE):
        raise TurnscopeError(f"A guidance of {guidance} is not possible: choose 0 to {MOST_GUIDANCE:.0f}.")
    if not 0 <= seed < 2**64:
        raise TurnscopeError(f"A seed of {seed} is not possible: choose 0 to 2**64 - 1.")
    if max_patches is not None and max_patches < 1:
        raise TurnscopeError(f"A phrase of at most {max_patches} patches has no sound: choose 1 or more.")
    if threads is not None and threads < 1:
        raise TurnscopeError(f"{threads} threads cannot compute: choose 1 or more.")
    if normalize and (lacking := [name for name in _NORMALISER_PACKAGES if find_spec(name) is None]):
        raise TurnscopeError(
            f"The text normaliser of VoxCPM2 needs the package {lacking[0]}: install it, or leave the normaliser off."
        )
