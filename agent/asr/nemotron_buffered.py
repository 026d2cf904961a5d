"""The same model without its cache: every chunk is encoded anew together with the sound before it, for comparison."""

from collections.abc import Callable
from typing import Any

import torch

from agent.asr.nemotron_model import Heard, NemotronModel, new_tokens


class BufferedDecoder:
    """A `ChunkDecoder`. The window is the chunk and, before it, as many frames as a frame attends to; of what the
    encoder makes of it only the chunk's frames are decoded, and the transducer goes on from its last state.

    There is nothing to the right of the chunk: the model's frames look ahead to their chunk's end and no further, so
    more sound there would change nothing. While the stream is shorter than the window the result is that of the cache;
    later it is near it, since what the frames before the chunk attended to is cut off at the window's start.
    """

    def __init__(self, model: NemotronModel) -> None:
        left, right = model.context
        self._model = model
        self._chunk_frames = right + 1
        self._window = 1 + model.subsampling * (left + right)  # feature frames: frame 0 of a window depends on one
        self._features: torch.Tensor | None = None
        self._hypotheses: list[Any] | None = None

    def hear(self, features: torch.Tensor, encoded: Callable[[], None]) -> Heard:
        library = self._model.library
        window = features if self._features is None else torch.cat([self._features, features], dim=-1)
        self._features = window = window[:, :, -self._window :]
        length = torch.tensor([window.shape[-1]], device=window.device)
        frames, _ = library.encoder(audio_signal=window, length=length)
        chunk = library._apply_prompt_to_encoded(frames[:, :, -self._chunk_frames :])
        encoded()
        hypotheses = library.decoding.rnnt_decoder_predictions_tensor(
            encoder_output=chunk,
            encoded_lengths=torch.tensor([self._chunk_frames], device=chunk.device),
            return_hypotheses=True,
            partial_hypotheses=self._hypotheses,
        )
        self._hypotheses = hypotheses
        return Heard(new_tokens(hypotheses[0]), frames.shape[-1])
