"""A .nemo file of Nemotron 3.5's architecture (a cache-aware FastConformer transducer, with language prompts), filled
with random weights by NeMo itself. What it hears is nonsense, and always the same for the same sound."""

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import OmegaConf
from sentencepiece import sentencepiece_model_pb2

from agent.asr.nemo_library import quiet
from agent.experiments.full_size.making import Recipe
from agent.experiments.full_size.shapes import NemotronShape
from agent.experiments.full_size.words import BEGINS_WORD, SPOKEN

with quiet():
    from nemo.collections.asr.models.rnnt_bpe_models_prompt import EncDecRNNTBPEModelWithPrompt

VERSION = 1
FILE = "model.nemo"
CONTEXTS = ((56, 13), (56, 6), (56, 3), (56, 1), (56, 0))  # frames to the left and to the right, of 80 ms
MEL_BANDS = 128
_LANGUAGES = {"en-US": 0, "en-GB": 1, "zh-CN": 4, "fr-FR": 8, "de-DE": 10, "auto": 101}
_PROMPTS = 128  # width of the one-hot language prompt
_SUBSAMPLING = 8
_MARKS = ("<unk>", ".", ",", "?")
_UNKNOWN = 2  # SentencePiece's type of a piece
_SILENT = 0.7  # of the frames get no word
_OPEN, _MOSTLY_OPEN = 10.0, 2.0  # biases of an LSTM's gate


def recipe(shape: NemotronShape, sound: NDArray[np.float32]) -> Recipe:
    """`sound` (float32, 16 kHz) is what the model is made to answer with syllables."""
    size = size_bytes(shape)

    def fill(folder: Path) -> None:
        write(folder / FILE, shape, sound)

    return Recipe("nemotron", shape, VERSION, size, fill, disk_bytes=2 * size)  # the weights lie beside the archive


def size_bytes(shape: NemotronShape) -> int:
    """Of the larger matrices, in 32 bits: three feed-forward, attention and convolution matrices in every layer, the
    embeddings, the predictor and the joint network's output."""
    of_layer = 24 * shape.width**2
    of_decoder = (2 * shape.tokens + 16 * shape.prediction_width) * shape.prediction_width
    return 4 * (shape.layers * of_layer + of_decoder + 5 * shape.width**2)


def write(path: Path, shape: NemotronShape, sound: NDArray[np.float32]) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder, quiet(), _temporary_files_in(folder):
        _write_tokenizer(Path(folder), shape.tokens)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = EncDecRNNTBPEModelWithPrompt(cfg=OmegaConf.create(config(Path(folder), shape))).eval()
            _make_talkative(model, sound)
        model.save_to(str(path))


@contextmanager
def _temporary_files_in(folder: str) -> Iterator[None]:
    """NeMo writes the weights beside the archive before it packs them: on the same disk, whose space was checked."""
    usual, tempfile.tempdir = tempfile.tempdir, folder
    try:
        yield
    finally:
        tempfile.tempdir = usual


def _make_talkative(model: Any, sound: NDArray[np.float32]) -> None:
    """Weights with which a second of the sound gives a few words, whatever the chunk.

    The encoder's part of the joint network gets the same spread in every channel; a word is written where its logit
    stands out. The prediction network is made to remember the last words and speaks against their logits, so that none
    is said over and over. The blank's logit is a share of the joint network's activity, which some frames surpass.
    """
    joint, output = model.joint, model.joint.joint_net[-1]
    with torch.no_grad():
        model.prompt_kernel[0].weight[:, -_PROMPTS:] *= 0.5
        encoded = torch.cat([_encoded(model, sound, context) for context in CONTEXTS])
        spread, mean = torch.std_mean(joint.enc(encoded), dim=0)
        joint.enc.weight /= spread[:, None]
        joint.enc.bias.copy_((joint.enc.bias - mean) / spread)
        output.bias.zero_()
        output.weight.normal_(0, 0.3)
        output.weight[len(_MARKS) + len(SPOKEN) :] *= 0.1  # never the likeliest
        activity = torch.relu(joint.enc(encoded))
        standing_out = output(activity)[:, :-1].max(dim=1).values / activity.sum(dim=1)
        output.weight[-1] = torch.quantile(standing_out, _SILENT)
        _remember(model.decoder.prediction, output.weight)
        joint.pred.weight.copy_(2 * torch.eye(*joint.pred.weight.shape))
        joint.pred.bias.zero_()


def _encoded(model: Any, sound: NDArray[np.float32], context: tuple[int, int]) -> torch.Tensor:
    """The frames of the sound as the joint network gets them, [frames, width]."""
    signal = torch.from_numpy(sound)[None]
    features, length = model.preprocessor(input_signal=signal, length=torch.tensor([signal.shape[1]]))
    model.encoder.set_default_att_context_size(list(context))
    model.set_inference_prompt("en-US")
    encoded, _ = model.encoder(audio_signal=features, length=length)
    return model._apply_prompt_to_encoded(encoded)[0].T


def _remember(prediction: Any, output: torch.Tensor) -> None:
    """Make the prediction network give, for each of the last pieces, the opposite of its row of `output`, more faintly
    for earlier ones. PyTorch keeps a layer's gates in the order input, forget, cell, output."""
    embeddings = prediction["embed"].weight
    embeddings.zero_()
    embeddings[: len(output) - 1, : output.shape[1]] = -output[:-1, : embeddings.shape[1]]
    width = embeddings.shape[1]
    for name, weight in prediction["dec_rnn"].named_parameters():
        weight.zero_()
        if "weight_ih" in name:
            weight[2 * width : 3 * width] = torch.eye(width)
        if "bias_ih" in name:
            weight[:width] = weight[3 * width :] = _OPEN
            weight[width : 2 * width] = _MOSTLY_OPEN if "l1" in name else -_OPEN


def _write_tokenizer(folder: Path, tokens: int) -> None:
    """A SentencePiece model of `tokens` pieces (marks, words, made-up syllables) as tokenizer.model and vocab.txt."""
    words = [f"{BEGINS_WORD}{word}" for word in SPOKEN]
    others = (piece for piece in _syllables() if piece not in words)
    pieces = list(itertools.islice(itertools.chain(_MARKS, words, others), tokens))
    model: Any = sentencepiece_model_pb2.ModelProto()  # pyright: ignore[reportAttributeAccessIssue]
    for number, piece in enumerate(pieces):
        entry = model.pieces.add()
        entry.piece, entry.score = piece, -float(number)
        if piece == "<unk>":
            entry.type = _UNKNOWN
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.trainer_spec.vocab_size = tokens
    model.trainer_spec.bos_id = model.trainer_spec.eos_id = model.trainer_spec.pad_id = -1
    model.normalizer_spec.name = "identity"
    (folder / "tokenizer.model").write_bytes(model.SerializeToString())
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")


def _syllables() -> Iterator[str]:
    """Alternately one that begins a word and one that goes on with it, of two and more consonants and vowels."""
    simple = ["".join(pair) for pair in itertools.product("bdfghklmnprstvz", "aeiou")]
    longer = (itertools.product(simple, repeat=count) for count in (2, 3))
    return (begins + "".join(parts) for parts in itertools.chain(*longer) for begins in (BEGINS_WORD, ""))


def config(tokenizer: Path, shape: NemotronShape) -> dict[str, Any]:
    """The model's configuration in NeMo's own form; `tokenizer` is the folder with tokenizer.model."""
    return {
        "sample_rate": 16_000,
        "compute_eval_loss": False,
        "log_prediction": False,
        "rnnt_reduction": "mean_volume",
        "skip_nan_grad": False,
        "model_defaults": {
            "enc_hidden": shape.width,
            "pred_hidden": shape.prediction_width,
            "joint_hidden": shape.joint_width,
            "num_prompts": _PROMPTS,
            "prompt_dictionary": _LANGUAGES,
            "initialize_prompt_feature": True,
        },
        "tokenizer": {"dir": str(tokenizer), "type": "bpe"},
        "preprocessor": {
            "_target_": "nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
            "sample_rate": 16_000,
            "normalize": "NA",
            "window_size": 0.025,
            "window_stride": 0.01,
            "window": "hann",
            "features": MEL_BANDS,
            "n_fft": 512,
            "log": True,
            "frame_splicing": 1,
            "dither": 1e-5,
            "pad_to": 0,
            "pad_value": 0.0,
        },
        "encoder": _encoder_config(shape),
        "decoder": {
            "_target_": "nemo.collections.asr.modules.RNNTDecoder",
            "normalization_mode": None,
            "random_state_sampling": False,
            "blank_as_pad": True,
            "prednet": {"pred_hidden": shape.prediction_width, "pred_rnn_layers": 2, "t_max": None, "dropout": 0.0},
        },
        "joint": {
            "_target_": "nemo.collections.asr.modules.RNNTJoint",
            "log_softmax": None,
            "preserve_memory": False,
            "fuse_loss_wer": False,
            "fused_batch_size": 4,
            "jointnet": {"joint_hidden": shape.joint_width, "activation": "relu", "dropout": 0.0},
        },
        "decoding": {"strategy": "greedy_batch", "greedy": {"max_symbols": 10}},
        "loss": {"loss_name": "default", "warprnnt_numba_kwargs": {"fastemit_lambda": 0.0, "clamp": -1.0}},
        "optim": {"name": "adamw", "lr": 1e-3},
    }


def _encoder_config(shape: NemotronShape) -> dict[str, Any]:
    return {
        "_target_": "nemo.collections.asr.modules.ConformerEncoder",
        "feat_in": MEL_BANDS,
        "feat_out": -1,
        "n_layers": shape.layers,
        "d_model": shape.width,
        "use_bias": False,
        "subsampling": "dw_striding",
        "subsampling_factor": _SUBSAMPLING,
        "subsampling_conv_channels": shape.subsampling_channels,
        "causal_downsampling": True,
        "ff_expansion_factor": 4,
        "self_attention_model": "rel_pos",
        "n_heads": shape.heads,
        "att_context_size": [list(context) for context in CONTEXTS],
        "att_context_style": "chunked_limited",
        "xscaling": False,
        "untie_biases": True,
        "pos_emb_max_len": 5000,
        "conv_kernel_size": 9,
        "conv_norm_type": "layer_norm",
        "conv_context_size": "causal",
        "dropout": 0.0,
        "dropout_pre_encoder": 0.0,
        "dropout_emb": 0.0,
        "dropout_att": 0.0,
    }
