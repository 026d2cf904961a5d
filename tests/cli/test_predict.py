"""`turnscope predict`: answers without a run."""

import re

import pytest
from click.testing import CliRunner

from agent.cli.predict import predict
from agent.errors import TurnscopeError


def said(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(predict, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return re.sub(" +", " ", result.output)


def refusal(*arguments: str) -> str:
    with pytest.raises(TurnscopeError) as error:
        CliRunner(env={"COLUMNS": "200"}).invoke(predict, list(arguments), catch_exceptions=False)
    sentence = str(error.value)
    assert sentence.endswith(".") and "\n" not in sentence
    return sentence


def test_without_arguments_it_prints_the_ceilings() -> None:
    table = said()
    assert "4.8 bits per weight" in table
    assert "rtx5090 1,792 GB/s 373 213 42.7 905 " in table
    assert "xeon-core 25.7 GB/s 5.35 3.06 0.612 13.0 " in table


def test_a_named_model_on_a_named_machine() -> None:
    table = said("--machine", "gpu-24gb", "--model", "gemma-4-12b", "--speed", "85.6", "--thinking", "80")
    assert "Gemma 4 12B Q4_0, 24 GB consumer GPU" in table
    for row in ("decode, at most 129 tok/s", "share of the ceiling 66.2 %", "wait for 80 thinking tokens 935 ms"):
        assert row in table


def test_numbers_may_be_given_in_place_of_names() -> None:
    assert "decode, at most 129 tok/s" in said("--bandwidth", "905GB/s", "--weights", "7.0GB")
    described = said("--bandwidth", "905GB/s", "--parameters", "12B", "--bits", "4.5")
    assert "12.0B parameters of 4.5 bits, 905 GB/s" in described and "decode, at most 134 tok/s" in described
    sparse = said("--machine", "rtx5090", "--parameters", "30B", "--active", "3.3B")
    assert "decode, at most 905 tok/s" in sparse and "memory for the weights 18.0 GB" in sparse
    bound = said("--machine", "rtx4090", "--flops", "1TFLOP/s", "--model", "dense-8b", "--prompt", "1000")
    assert "prefill of 1,000 tokens, at least 16.0 s" in bound


def test_bits_follow_from_weights_and_parameters() -> None:
    assert "intensity, batch 1 2.00 FLOP/byte" in said(
        "--bandwidth", "905GB/s", "--weights", "8GB", "--parameters", "8B"
    )


def test_the_context_is_read_too() -> None:
    known = said("--machine", "gpu-24gb", "--model", "gemma-4-12b", "--context", "1000")
    assert "KV cache read per token 344 MB" in known
    given = said("--machine", "rtx5090", "--model", "dense-8b", "--context", "1000", "--kv-per-token", "131072B")
    assert "KV cache read per token 131 MB" in given
    assert "--kv-per-token" in refusal("--machine", "rtx5090", "--model", "dense-8b", "--context", "1000")


def test_an_impossible_prefill_is_refused_with_its_cause() -> None:
    table = said("--machine", "gpu-8gb", "--model", "qwen3-4b", "--prefill-speed", "91240")
    assert "657 TFLOP/s" in table and "IMPOSSIBLE" in table and "prefix cache" in table


def test_a_model_or_a_machine_alone_gives_a_part_of_the_table() -> None:
    model = said("--model", "qwen3-1.7b", "--format", "FP8")
    assert "Qwen3 1.7B" in model and "gpu-8gb 250 GB/s 123" in model and "dense" not in model
    machine = said("--machine", "rtx4090", "--format", "Q8_0")
    assert "8.5 bits" in machine and "rtx4090 1,008 GB/s 119 " in machine and "h100" not in machine
    assert "as given 100 GB/s" in said("--bandwidth", "100GB/s")


def test_the_voice_and_the_recogniser() -> None:
    voice = said("--model", "voxcpm2")
    assert "first audio, streamed 306 ms" in voice and "slope: gap-free 0.475" in voice
    assert "one patch 25.3 ms to 76.0 ms" in said("--model", "voxcpm2", "--diffusion-steps", "4")
    one = said("--model", "nemotron", "--chunk", "320")
    assert "mean wait, unflushed 160 ms" in one and "[56, 13]" not in one
    assert "chunk [56, 13] 1.12 s" in said("--model", "nemotron")


def test_options_of_other_models_are_told() -> None:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(
        predict, ["--model", "nemotron", "--thinking", "80", "--bits", "4"]
    )
    assert result.exit_code == 0
    assert "Without effect on Nemotron 3.5 ASR streaming 0.6B: --bits, --thinking." in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--machine rtx509", "Did you mean rtx5090?"),
        ("--model gpt", "There are dense-8b"),
        ("--format Q4_X", "no weight format 'Q4_X'"),
        ("--model nemotron --format Q4_X --machine l4", "no weight format 'Q4_X'"),
        ("--bandwidth 905", "--bandwidth: '905' has no unit"),
        ("--bandwidth 905Gb/s", "GB/s"),
        ("--flops 3GB/s", "--flops"),
        ("--thinking 1.5", "whole"),
        ("--batch 0", "--batch"),
        ("--model nemotron --chunk 300", "80, 160, 320, 560, 1120 ms"),
        ("--model voxcpm2 --diffusion-steps 1", "only noise"),
        ("--model voxcpm2 --patch 0ms", "--patch"),
        ("--model dense-8b --parameters 3B", "leave them or --model out"),
        ("--parameters 3B --active 4B", "cannot be more"),
        ("--bits 4 --format Q4_0", "leave one of them out"),
        ("--weights 7GB --kv-per-token 1kB --machine l4", "give --context"),
        ("--weights 7GB --machine l4 --total-speed 100", "give --batch and --speed"),
    ],
)
def test_what_cannot_be_is_one_sentence(arguments: str, words: str) -> None:
    assert words in refusal(*arguments.split())
