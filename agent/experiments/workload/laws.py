"""The work of each engine's operations, from the files that it has loaded."""

from collections.abc import Sequence
from functools import cached_property
from math import prod
from pathlib import Path

from agent.asr.nemotron_choices import FRAME_MS
from agent.experiments.workload import weights
from agent.experiments.workload.names import FLOAT32, LLAMA_READ
from agent.llm.bytes_read import BytesRead
from agent.llm.gguf_header import GgufHeader
from profiling import workload
from profiling.roofline import Term
from profiling.workload import VoxCpmSize, Weight


class AsrLaw:
    """A .nemo file's: one pass over a chunk, by part."""

    def __init__(self, path: Path) -> None:
        self._weights = weights.of_nemo(path)
        encoder = weights.nemo_config(path)["encoder"]
        self._cached = int(encoder["att_context_size"][0][0])
        self._subsampling = int(encoder["subsampling_factor"])
        filters = next(weight for weight in self._weights if weight.name.endswith("featurizer.fb"))
        self._mel_bands, self._fft = filters.shape[1], 2 * (filters.shape[2] - 1)

    def a_pass(self, chunk_ms: int, tokens: float) -> dict[str, Term]:
        """A later pass, which looks back over feature frames of the chunk before; it emits so many tokens."""
        frames = chunk_ms // FRAME_MS
        new, looked_back = self._subsampling * frames, self._subsampling + 1
        size = workload.StreamingPass(frames, new + looked_back, self._mel_bands, self._cached, tokens)
        return {
            "features": Term(workload.mel_features(new, self._fft, self._mel_bands), FLOAT32),
            "encoder": Term(workload.fastconformer_encoder(self._weights, size), FLOAT32),
            "decoder": Term(workload.transducer_decoder(self._weights, size), FLOAT32),
        }


class LlmLaw:
    """A GGUF file's. `parameters` are those of the matrices between embedding and output head, `head_parameters` the
    head's; `elements` counts them all by weight format, and `format` is that of most of them, which llama.cpp's
    arithmetic is named for."""

    def __init__(self, path: Path, batch_tokens: int | None = None) -> None:
        """`batch_tokens` are those of a prompt that are evaluated at once; by default all."""
        header = GgufHeader(path)
        self._reads = BytesRead.of_model(header, recurrent=False)
        matrices = [weight for weight in weights.of_gguf(header) if len(weight.shape) > 1]
        outer = [weight for weight in matrices if weight.name in ("token_embd.weight", "output.weight")]
        self.parameters = sum(weight.elements for weight in matrices) - sum(weight.elements for weight in outer)
        self.head_parameters = max(weight.elements for weight in outer)
        self.head_bytes = max(weight.bytes for weight in outer)
        self._batch_tokens = batch_tokens
        self.elements: dict[str, int] = {}
        for tensor in header.tensors:
            self.elements[tensor.format] = self.elements.get(tensor.format, 0) + prod(tensor.shape)
        self.format = max(self.elements, key=lambda name: self.elements[name])

    @cached_property
    def weight_bytes(self) -> int:
        return self._reads.weight_bytes() or 0

    def kv_bytes(self, depth: int) -> int:
        return self._reads.kv_bytes(depth) or 0

    def prefill(self, tokens: int) -> Term:
        work = workload.prefill(self.weight_bytes, self.parameters, tokens, self._batch_tokens or tokens)
        return Term(work, self.format, LLAMA_READ)

    def token(self, kv_bytes: float) -> Term:
        work = workload.decode_step(self.weight_bytes, kv_bytes, self.parameters + self.head_parameters)
        return Term(work, self.format, LLAMA_READ)


class TtsLaw:
    """A VoxCPM2 folder's: set-up and patch by part."""

    def __init__(self, folder: Path) -> None:
        from agent.tts.voxcpm_checkpoint import VoxCPMConfig

        config = VoxCPMConfig.model_validate_json((folder / "config.json").read_bytes())
        lm = config.lm_config
        self.dtype: str = config.dtype
        self._weights: Sequence[Weight] = weights.of_voxcpm(folder)
        self._size = VoxCpmSize(
            heads=lm.num_attention_heads,
            kv_heads=lm.num_key_value_heads,
            head_size=lm.kv_channels or lm.hidden_size // lm.num_attention_heads,
            layers=lm.num_hidden_layers,
            residual_layers=config.residual_lm_num_layers,
            kv_positions=config.max_length,
            patch_frames=config.patch_size,
        )

    def setup(self, tokens: int) -> dict[str, Term]:
        """The parts that are work, for a text of so many tokens; a marker is read after them."""
        return {"prefill": Term(workload.voxcpm_prefill(self._weights, self._size, tokens + 1), self.dtype)}

    def patch(self, forwards: int, *, first: bool) -> dict[str, Term]:
        """The VAE computes with 32-bit numbers. The first patch has no step of the language models."""
        parts = workload.voxcpm_patch(self._weights, self._size, forwards)
        terms = {part: Term(work, FLOAT32 if part == "vae" else self.dtype) for part, work in parts.items()}
        return {part: term for part, term in terms.items() if not (first and part in _BETWEEN_PATCHES)}


_BETWEEN_PATCHES = ("stop_check", "base_lm", "residual_lm")
