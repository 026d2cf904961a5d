"""A Piper voice (VITS) cut at its latent: what depends on the whole phrase, and a decoder that can run patch by patch.

The latent is what the decoder's first convolution reads, [1, 192, frames]; one frame becomes 256 samples of sound.
"""

from pathlib import Path

import numpy as np
import onnx
import onnx.utils

from agent.models.convert import Report
from agent.models.convert.same_results import open_graph, require_same, run

_FIRST_CONVOLUTION = "/dec/conv_pre/Conv"
_INPUTS = ("input", "input_lengths", "scales")
_TOLERANCE = 1e-4


def convert(source: Path, target: Path, report: Report) -> None:
    """Write `target`/encoder.onnx and decoder.onnx from `source`/voice.onnx, and check them against it."""
    report(0, 2, "splitting the voice at its latent")
    split(source / "voice.onnx", target)
    report(1, 2, "comparing with the unsplit voice")
    check(source / "voice.onnx", target)


def split(voice: Path, target: Path) -> None:
    """Write the two halves of `voice` as `target`/encoder.onnx (phonemes -> latent) and decoder.onnx (latent -> sound).

    Raises ValueError when the graph has no decoder whose first convolution bears the expected name.
    """
    graph = onnx.load(voice).graph
    latents = [node.input[0] for node in graph.node if node.name == _FIRST_CONVOLUTION]
    if len(latents) != 1:
        raise ValueError(f"{voice.name} has no node {_FIRST_CONVOLUTION}: it is no Piper voice of a known kind")
    sound = graph.output[0].name
    onnx.utils.extract_model(voice, target / "encoder.onnx", list(_INPUTS), latents, check_model=False)
    onnx.utils.extract_model(voice, target / "decoder.onnx", latents, [sound], check_model=False)


def check(voice: Path, halves: Path) -> None:
    """Raise RuntimeError unless the halves sound like the unsplit voice when the noise is switched off."""
    phoneme_ids = np.arange(3, 39, dtype=np.int64)[None]
    values = {
        "input": phoneme_ids,
        "input_lengths": np.array([phoneme_ids.shape[1]], np.int64),
        "scales": np.array([0.0, 1.0, 0.0], np.float32),
    }
    whole = run(open_graph(voice), values)
    halved = run(open_graph(halves / "decoder.onnx"), run(open_graph(halves / "encoder.onnx"), values))
    require_same(whole, halved, _TOLERANCE)
