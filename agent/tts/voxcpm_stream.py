"""One phrase on a VoxCPM2 model: the library's generator of patches, timed by part and stoppable inside a patch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from agent.tts.protocol import ShouldStop
from agent.tts.voxcpm_checkpoint import VoxCPM2Model
from agent.tts.voxcpm_timing import Stopwatch
from agent.tts.voxcpm_voice import Prompt

SETUP_PARTS = ("normalise", "tokenise", "prompt", "prefill")
PATCH_PARTS = ("stop_check", "base_lm", "residual_lm", "diffusion", "local_encoder", "vae")
_MIN_LENGTH = 2  # the library's own: a phrase may end after its fourth patch, not before


class _Stopped(Exception):
    """Ends the library's generator from within."""


class PhraseStream:
    """The patches of one phrase. A model serves one at a time: opening one closes the one that is open.

    The library runs its loop inside one generator, so the places where one part ends and the next begins are reached
    through the model itself: while a stream is open, eight functions of this one model (never of a class) are wrapped,
    and `close` puts the library's own back. A wrapper asks `should_stop` before its function runs and reads the clock
    before or after it, or both; between two patches nothing runs.

    | part | begins with | ends with |
    |---|---|---|
    | tokenise | a call of the tokeniser | its end |
    | prefill | the tokeniser's end | the residual LM's KV cache filled |
    | stop_check | the generator resumed | the base LM's step called |
    | base_lm | its step | the residual LM's step called: quantiser and fusion included |
    | residual_lm | its step | its end |
    | diffusion | the residual LM's end, or that of prefill | its end: the projections into it included |
    | local_encoder | the diffusion's end | the VAE decoder called |
    | vae | the VAE decoder | the patch in host memory |

    Random numbers are the phrase's own: the process's generator is lent to the library for each patch and put back.
    """

    _open: ClassVar[WeakKeyDictionary[VoxCPM2Model, "PhraseStream"]] = WeakKeyDictionary()

    def __init__(
        self,
        model: VoxCPM2Model,
        watch: Stopwatch,
        should_stop: ShouldStop,
        *,
        text: str,
        prompt: Prompt,
        diffusion_steps: int,
        guidance: float,
        max_patches: int,
        seed: int,
    ) -> None:
        self.max_patches = max_patches
        self.closed = False
        self._forwards = 0
        self._model = model
        self._watch = watch
        self._should_stop = should_stop
        self._noise = _Noise(torch.device(model.device), seed)
        self._replaced: list[tuple[dict[str, Any], str, Any]] = []
        self._patches = model.generate_with_prompt_cache_streaming(
            target_text=text,
            prompt_cache=prompt.cache,
            min_len=_MIN_LENGTH,
            max_len=max_patches,
            inference_timesteps=diffusion_steps,
            cfg_value=guidance,
        )
        self.end_open(model)
        self._open[model] = self
        self._instrument(model)

    @classmethod
    def end_open(cls, model: VoxCPM2Model) -> None:
        """Close the stream that is open on the model, if any. What it holds suspended ends there."""
        if (stream := cls._open.get(model)) is not None:
            stream.close()

    def next_patch(self) -> NDArray[np.float32] | None:
        """The next patch: float32 (n,) in [-1, 1]. None when the phrase is over, was stopped, or is closed."""
        if self.closed:
            return None
        try:
            with self._noise.lent():
                samples, _, _ = next(self._patches)
        except (StopIteration, _Stopped):
            self.close()
            return None
        return samples.squeeze(0).numpy()

    def take_forwards(self) -> int:
        """The forward passes of the diffusion module since the last call."""
        forwards, self._forwards = self._forwards, 0
        return forwards

    def close(self) -> None:
        """End the phrase where it is; the model is then as it was before."""
        if self.closed:
            return
        self.closed = True
        self._patches.close()
        while self._replaced:
            attributes, name, own = self._replaced.pop()
            if own is None:
                del attributes[name]
            else:
                attributes[name] = own
        del self._open[self._model]

    def _instrument(self, model: Any) -> None:
        self._wrap(model, "text_tokenizer", "tokenise", "prefill")
        self._wrap(model.residual_lm, "forward")
        self._wrap(model.residual_lm.kv_cache, "fill_caches", None, "diffusion")
        self._wrap(model.base_lm, "forward_step", "base_lm")
        self._wrap(model.residual_lm, "forward_step", "residual_lm", "diffusion")
        self._wrap(model.feat_decoder, "forward", None, "local_encoder")
        self._wrap(model.feat_decoder.estimator, "forward", counted=True)
        self._wrap(model.audio_vae, "decode", "vae")

    def _wrap(
        self, owner: Any, name: str, before: str | None = None, after: str | None = None, *, counted: bool = False
    ) -> None:
        """Let a part begin before a function of this one object is called, and another after it."""
        call: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            if self._should_stop():
                raise _Stopped
            if before is not None:
                self._watch.begin(before)
            self._forwards += counted
            result = call(*arguments, **named)
            if after is not None:
                self._watch.begin(after)
            return result

        attributes = vars(owner)
        self._replaced.append((attributes, name, attributes.get(name)))
        attributes[name] = timed


class _Noise:
    """A sequence of random numbers that starts with the seed and goes on from patch to patch, whoever else draws."""

    def __init__(self, device: torch.device, seed: int) -> None:
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            self._generator = torch.cuda.default_generators[index]
        else:
            self._generator = torch.default_generator
        self._state = torch.Generator(device).manual_seed(seed).get_state()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Meanwhile the process's generator for the device draws this sequence."""
        before = self._generator.get_state()
        self._generator.set_state(self._state)
        try:
            yield
        finally:
            self._state = self._generator.get_state()
            self._generator.set_state(before)
