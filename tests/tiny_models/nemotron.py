"""A random-weight model of Nemotron 3.5's architecture (cache-aware FastConformer-RNNT with language prompts), of any
size, and the tiny one saved as a .nemo file. What it hears is nonsense, and always the same for the same sound."""

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from sentencepiece import sentencepiece_model_pb2

from agent.asr.nemo_library import EncDecRNNTBPEModel, quiet

with quiet():
    from nemo.collections.asr.models.rnnt_bpe_models_prompt import EncDecRNNTBPEModelWithPrompt

CONTEXTS = ((56, 13), (56, 6), (56, 3), (56, 1), (56, 0))  # frames to the left and to the right, of 80 ms
LANGUAGES = {"en-US": 0, "en-GB": 1, "zh-CN": 4, "zh-TW": 5, "fr-FR": 8, "fr-CA": 9, "de-DE": 10, "auto": 101}
PROMPTS = 128  # width of the one-hot language prompt
_MARKS = ("<unk>", "<en-US>", "<de-DE>", ".", ",", "?")
_UNKNOWN, _USER_DEFINED = 2, 4  # SentencePiece's types of pieces


@dataclass(frozen=True)
class Shape:
    """Sizes of a model; the defaults are the tiny one's."""

    layers: int = 2
    width: int = 64
    heads: int = 4
    subsampling_channels: int = 16
    prediction_width: int = 64
    joint_width: int = 64
    tokens: int = 120


TINY = Shape()
FULL_SIZE = Shape(24, 1024, 8, 256, 640, 640, 13_087)


def write_nemotron(path: Path, shape: Shape = TINY, *, prompted: bool = True, **encoder: object) -> Path:
    """Save a model as the .nemo file `path`, which is returned; `encoder` overrides settings of its encoder."""
    with tempfile.TemporaryDirectory() as folder, quiet():
        build_nemotron(Path(folder), shape, prompted=prompted, **encoder).save_to(str(path))
    return path


def build_nemotron(
    folder: Path, shape: Shape = TINY, *, prompted: bool = True, **encoder: object
) -> EncDecRNNTBPEModel:
    """A model in evaluation mode, its tokenizer written into `folder`, where it must stay until the model is saved."""
    write_tokenizer(folder, shape.tokens)
    config = nemotron_config(folder, shape, prompted=prompted)
    config.encoder.update(encoder)
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(0)
        model = (EncDecRNNTBPEModelWithPrompt if prompted else EncDecRNNTBPEModel)(cfg=config)
        _make_talkative(model)
    return model.eval()


def nemotron_config(tokenizer: Path, shape: Shape = TINY, *, prompted: bool = True) -> DictConfig:
    """The model's configuration in the library's own form; `tokenizer` is the folder with tokenizer.model."""
    prompts = {"num_prompts": PROMPTS, "prompt_dictionary": LANGUAGES, "initialize_prompt_feature": True}
    return OmegaConf.create(
        {
            "sample_rate": 16_000,
            "compute_eval_loss": False,
            "log_prediction": False,
            "rnnt_reduction": "mean_volume",
            "skip_nan_grad": False,
            "model_defaults": {
                "enc_hidden": shape.width,
                "pred_hidden": shape.prediction_width,
                "joint_hidden": shape.joint_width,
                **(prompts if prompted else {}),
            },
            "tokenizer": {"dir": str(tokenizer), "type": "bpe"},
            "preprocessor": {
                "_target_": "nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
                "sample_rate": 16_000,
                "normalize": "NA",
                "window_size": 0.025,
                "window_stride": 0.01,
                "window": "hann",
                "features": 128,
                "n_fft": 512,
                "log": True,
                "frame_splicing": 1,
                "dither": 1e-5,
                "pad_to": 0,
                "pad_value": 0.0,
            },
            "encoder": {
                "_target_": "nemo.collections.asr.modules.ConformerEncoder",
                "feat_in": 128,
                "feat_out": -1,
                "n_layers": shape.layers,
                "d_model": shape.width,
                "use_bias": False,
                "subsampling": "dw_striding",
                "subsampling_factor": 8,
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
            },
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
            "decoding": {"strategy": "greedy_batch", "greedy": {"max_symbols": 2}},
            "loss": {"loss_name": "default", "warprnnt_numba_kwargs": {"fastemit_lambda": 0.0, "clamp": -1.0}},
            "optim": {"name": "adamw", "lr": 1e-3},
        }
    )


def write_tokenizer(folder: Path, tokens: int) -> None:
    """A SentencePiece model of `tokens` pieces, marks and made-up syllables, as tokenizer.model and vocab.txt."""
    pieces = [*_MARKS, *itertools.islice(_words(), tokens - len(_MARKS))]
    model = sentencepiece_model_pb2.ModelProto()
    for number, piece in enumerate(pieces):
        entry = model.pieces.add()
        entry.piece, entry.score = piece, -float(number)
        if piece.startswith("<"):
            entry.type = _UNKNOWN if piece == "<unk>" else _USER_DEFINED
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.trainer_spec.vocab_size = tokens
    model.trainer_spec.bos_id = model.trainer_spec.eos_id = model.trainer_spec.pad_id = -1
    model.normalizer_spec.name = "identity"
    (folder / "tokenizer.model").write_bytes(model.SerializeToString())
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")


def _words() -> Iterator[str]:
    """Made-up words, the short ones first, alternately one that begins a word and one that goes on with it."""
    syllables = ["".join(letters) for letters in itertools.product("bdfghklmnprstvz", "aeiou")]
    for count in itertools.count(1):
        for word in map("".join, itertools.product(syllables, repeat=count)):
            yield from ("▁" + word, word)


def babble(seconds: float, seed: int = 0) -> NDArray[np.float32]:
    """Sound with the rhythm and the moving resonances of speech, 16 kHz."""
    random = np.random.default_rng(seed)
    times = np.arange(round(16_000 * seconds)) / 16_000

    def swing(rate_hz: float) -> NDArray[np.float64]:
        return np.sin(2 * np.pi * rate_hz * times + random.uniform(0, 2 * np.pi))

    pitch_hz = 130 + 15 * swing(0.7)
    phase = 2 * np.pi * np.cumsum(pitch_hz) / 16_000
    resonances_hz = (700 + 400 * swing(1.7), 1500 + 600 * swing(1.1), 2700 + 300 * swing(2.3))
    voice = sum(
        np.sin(number * phase) * sum(np.exp(-(((number * pitch_hz - at_hz) / 150) ** 2)) for at_hz in resonances_hz)
        for number in range(1, 26)
    )
    hiss = random.normal(0, 0.3, len(times)) * (swing(2.1) > 0.3)
    loudness = np.clip(swing(2.0) + 0.4, 0, None) * (swing(0.25) > -0.6)
    return (0.05 * (voice + hiss) * loudness + random.normal(0, 1e-4, len(times))).astype(np.float32)


def _make_talkative(model: EncDecRNNTBPEModel) -> None:
    """Weights with which speech gives a few syllables a second, for ever, and another language gives other ones.

    Half of the joint network's channels hear the encoder alone and decide whether a frame has syllables (one in eight
    of `babble`), half hear the prediction network, too, and decide which.
    """
    sound = torch.from_numpy(babble(6.0))[None]
    features, length = model.preprocessor(input_signal=sound, length=torch.tensor([sound.shape[1]]))
    joint, output = model.joint, model.joint.joint_net[-1]
    half = output.in_features // 2
    with torch.no_grad():
        if hasattr(model, "prompt_kernel"):
            model.prompt_kernel[0].weight[:, -PROMPTS:] *= 0.3
            model.set_inference_prompt("en-US")
        encoded, _ = model.eval().encoder(audio_signal=features, length=length)
        encoded = model._apply_prompt_to_encoded(encoded)[0].T
        spread, mean = torch.std_mean(joint.enc(encoded), dim=0)
        joint.enc.weight /= spread[:, None]
        joint.enc.bias.copy_((joint.enc.bias - mean) / spread)
        joint.pred.weight[:half] = joint.pred.bias[:half] = 0
        joint.pred.weight[half:] *= 2
        for weight in model.decoder.prediction["dec_rnn"].parameters():
            weight *= 8
        model.decoder.prediction["embed"].weight.normal_(0, 3)[-1] = 0
        output.weight.zero_()
        output.weight[:-1, half:].normal_(0, 0.2)
        output.weight[-1, :half].normal_(0, 1)
        output.bias.zero_()
        output.bias[_MARKS.index("<unk>")] = -100
        logits = output(torch.relu(joint.enc(encoded)))
        output.bias[-1] = torch.quantile(logits[:, :-1].max(dim=1).values - logits[:, -1], 7 / 8)
