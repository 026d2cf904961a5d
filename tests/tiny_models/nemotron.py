"""A random-weight model of Nemotron 3.5's architecture (cache-aware FastConformer-RNNT with language prompts), of any
size, and the tiny one saved as a .nemo file. What it hears is nonsense, and always the same for the same sound."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from sentencepiece import sentencepiece_model_pb2

from agent.asr.nemo_library import EncDecRNNTBPEModel, quiet
from agent.experiments.full_size.nemotron_file import config
from agent.experiments.full_size.shapes import NemotronShape

with quiet():
    from nemo.collections.asr.models.rnnt_bpe_models_prompt import EncDecRNNTBPEModelWithPrompt

LANGUAGES = {"en-US": 0, "en-GB": 1, "zh-CN": 4, "zh-TW": 5, "fr-FR": 8, "fr-CA": 9, "de-DE": 10, "auto": 101}
PROMPTS = 128  # width of the one-hot language prompt
_MARKS = ("<unk>", "<en-US>", "<de-DE>", ".", ",", "?")
_UNKNOWN, _USER_DEFINED = 2, 4  # SentencePiece's types of pieces


TINY = NemotronShape(
    layers=2, width=64, heads=4, subsampling_channels=16, prediction_width=64, joint_width=64, tokens=120
)


def write_nemotron(path: Path, shape: NemotronShape = TINY, *, prompted: bool = True, **encoder: object) -> Path:
    """Save a model as the .nemo file `path`, which is returned; `encoder` overrides settings of its encoder."""
    with tempfile.TemporaryDirectory() as folder, quiet():
        build_nemotron(Path(folder), shape, prompted=prompted, **encoder).save_to(str(path))
    return path


def build_nemotron(
    folder: Path, shape: NemotronShape = TINY, *, prompted: bool = True, **encoder: object
) -> EncDecRNNTBPEModel:
    """A model in evaluation mode, its tokenizer written into `folder`, where it must stay until the model is saved."""
    write_tokenizer(folder, shape.tokens)
    settings = nemotron_config(folder, shape, prompted=prompted)
    settings.encoder.update(encoder)
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(0)
        model = (EncDecRNNTBPEModelWithPrompt if prompted else EncDecRNNTBPEModel)(cfg=settings)
        _make_talkative(model)
    return model.eval()


def nemotron_config(tokenizer: Path, shape: NemotronShape = TINY, *, prompted: bool = True) -> DictConfig:
    """The configuration of the model of full size, with a shape, languages and a decoding of its own; `tokenizer` is
    the folder with tokenizer.model."""
    made = config(tokenizer, shape)
    of_model = made["model_defaults"]
    if prompted:
        of_model |= {"num_prompts": PROMPTS, "prompt_dictionary": LANGUAGES}
    else:
        for name in ("num_prompts", "prompt_dictionary", "initialize_prompt_feature"):
            del of_model[name]
    made["decoding"]["greedy"]["max_symbols"] = 2
    return OmegaConf.create(made)


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
