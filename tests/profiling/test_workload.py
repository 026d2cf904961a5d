"""Work counted by hand."""

import pytest

from profiling import workload
from profiling.workload import StreamingPass, VoxCpmSize, Weight, Work


def test_works_add_up() -> None:
    assert Work(1, 2) + Work(3, 4) * 2 == Work(7, 10)


def test_a_matrix_is_read_once_and_multiplied_with_every_row() -> None:
    weights = [Weight("m", (3, 5), 2), Weight("bias", (3,), 2)]
    assert workload.applied(weights, 4) == Work(2 * 15 + 2 * 3, 2 * 15 * 4)


def test_attention_reads_keys_and_values_once_and_uses_them_for_every_head() -> None:
    work = workload.attention(1, 100, heads=8, kv_heads=2, head_size=16, element_bytes=2, layers=3)
    assert work == Work(3 * 2 * 100 * 2 * 16 * 2, 3 * 2 * 2 * 100 * 8 * 16)


def test_a_decode_step_of_the_reference() -> None:
    """7.0 GB at 905 GB/s: 129 tokens/s at most."""
    work = workload.decode_step(7.0e9, 0, 12e9)
    assert 905e9 / work.bytes == pytest.approx(129, abs=0.5)


def test_prefill_of_the_reference() -> None:
    """8,730 tokens/s of a model with 1.4 G parameters: 24 TFLOP/s."""
    assert workload.prefill(0, 1.4e9, 8730, 512).flops == pytest.approx(24e12, rel=0.03)


def test_prefill_reads_the_weights_for_every_batch() -> None:
    assert [workload.prefill(10, 1, tokens, 4).bytes for tokens in (1, 4, 5, 12)] == [10, 10, 20, 30]


def test_keys_values_and_positions_are_made_of_all_that_attention_reaches() -> None:
    def layer(name: str) -> Weight:
        return Weight(f"encoder.layers.0.self_attn.linear_{name}.weight", (4, 4), 4)

    size = StreamingPass(frames=2, features=16, mel_bands=8, cached=6, tokens=0)
    rows = {"q": 2, "k": 8, "v": 8, "out": 2, "pos": 15}
    for name, count in rows.items():
        scores = 2 * 2 * 15 * 4 if name == "q" else 0  # of the positions; there are no heads here for the others
        assert workload.fastconformer_encoder([layer(name)], size) == Work(64, 2 * 16 * count + scores)


def test_subsampling_halves_time_and_bands() -> None:
    weights = [
        Weight("encoder.pre_encode.conv.0.weight", (2, 1, 3, 3), 4),
        Weight("encoder.pre_encode.conv.2.weight", (2, 2, 1, 1), 4),
        Weight("encoder.pre_encode.out.weight", (5, 10), 4),
    ]
    size = StreamingPass(frames=2, features=16, mel_bands=8, cached=6, tokens=0)
    flops = 2 * (18 * 9 * 5 + 4 * 9 * 5 + 50 * 9)
    assert workload.fastconformer_encoder(weights, size) == Work(4 * (18 + 4 + 50), flops)


def test_the_decoder_takes_a_step_for_every_token_and_frame() -> None:
    weights = [
        Weight("decoder.prediction.embed.weight", (100, 8), 4),
        Weight("decoder.prediction.dec_rnn.lstm.weight_ih_l0", (32, 8), 4),
        Weight("joint.enc.weight", (8, 16), 4),
        Weight("joint.pred.weight", (8, 8), 4),
        Weight("joint.joint_net.2.weight", (100, 8), 4),
    ]
    work = workload.transducer_decoder(weights, StreamingPass(frames=4, features=0, mel_bands=0, cached=0, tokens=3))
    assert work.bytes == 4 * (4 * 8 + 4 * 256 + 128 + 4 * 64 + 7 * 800)
    assert work.flops == 2 * (4 * 256 + 4 * 128 + 4 * 64 + 7 * 800)


SIZE = VoxCpmSize(heads=4, kv_heads=2, head_size=8, layers=2, residual_layers=1, kv_positions=10, patch_frames=4)


def test_diffusion_reads_its_weights_for_every_forward() -> None:
    weights = [
        Weight("feat_decoder.estimator.decoder.layers.0.mlp.up_proj.weight", (8, 8), 2),
        Weight("feat_decoder.estimator.in_proj.weight", (8, 8), 2),
        Weight("feat_decoder.estimator.time_mlp.linear_1.weight", (8, 8), 2),
        Weight("lm_to_dit_proj.weight", (8, 8), 2),
    ]
    work = workload.voxcpm_patch(weights, SIZE, 3)["diffusion"]
    assert work == Work(3 * 3 * 128 + 128, 2 * 64 * (3 * 2 * (11 + 4 + 1) + 1))


def test_a_step_of_a_language_model_scans_its_whole_cache() -> None:
    weights = [Weight("base_lm.layers.0.mlp.up_proj.weight", (8, 8), 2)]
    step = workload.voxcpm_patch(weights, SIZE, 1)["base_lm"]
    assert step == Work(128 + 2 * 2 * 10 * 2 * 8 * 2, 2 * 64 + 2 * 2 * 2 * 10 * 4 * 8)


def test_the_vae_works_on_longer_and_longer_sequences() -> None:
    weights = [
        Weight("audio_vae.decoder.model.1.weight_v", (6, 5, 1), 4),
        Weight("audio_vae.decoder.model.2.block.1.weight_v", (6, 3, 16), 4),  # kernel 16: stride 8
        Weight("audio_vae.decoder.model.2.block.2.block.3.weight_v", (3, 3, 1), 4),
        Weight("audio_vae.decoder.model.2.block.2.block.3.bias", (3,), 4),
    ]
    work = workload.voxcpm_patch(weights, SIZE, 1)["vae"]
    assert work == Work(4 * (30 + 288 + 9 + 3), 2 * (30 * 4 + 288 * 4 + 9 * 32))


def test_prefill_of_the_voice_encodes_an_empty_patch_for_every_token() -> None:
    weights = [
        Weight("base_lm.layers.0.mlp.up_proj.weight", (8, 8), 2),
        Weight("feat_encoder.in_proj.weight", (8, 8), 2),
        Weight("feat_encoder.encoder.layers.0.mlp.up_proj.weight", (8, 8), 2),
    ]
    assert workload.voxcpm_prefill(weights, SIZE, 3) == Work(3 * 128, 2 * 64 * 3 * (1 + 4 + 5))


def test_features() -> None:
    assert workload.mel_features(2, 512, 128) == Work(0, 2 * (5 * 512 * 9 + 2 * 128 * 257))
