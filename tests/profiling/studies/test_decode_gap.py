"""The decode gap: planted costs of weights, KV cache, attention, formats and tokens come out of the samples."""

import numpy as np
import pytest

from profiling import operations as op
from profiling.calibration import Sample
from profiling.studies.decode_gap import decode_gap_finding, depth_line, split
from profiling.studies.node_times import ATTENTION, OTHER, WEIGHTS, NodeTimes, kind_of, node_sentence
from profiling.studies.weight_costs import File, weight_costs

READ = 20e9
BYTES = {"Q8_0": 8.5 / 8, "Q4_0": 4.5 / 8, "F16": 2.0}
WEIGHT_S = {"Q8_0": 20e-12, "Q4_0": 35e-12, "F16": 8e-12}  # beyond reading
TOKEN_S = 1e-3
ATTENTION_S = 3 / READ  # of a byte of KV cache, beyond reading it
LAYERS, HEAD = 106e6, 28e6
NODES = NodeTimes(20 << 20, 600, [0.017], [0.020], {WEIGHTS: [0.012], ATTENTION: [0.006], OTHER: [0.002]})


def file(name: str, elements: dict[str, float], kv_mib: tuple[float, ...] = (0.8,), seed: int = 0) -> File:
    random = np.random.default_rng(seed)
    weight_bytes = sum(count * BYTES[one] for one, count in elements.items())
    fixed = TOKEN_S + weight_bytes / READ + sum(count * WEIGHT_S[one] for one, count in elements.items())
    samples = [
        Sample(
            operation=op.TOKEN,
            duration_s=(fixed + kv * (1 / READ + ATTENTION_S)) * float(random.normal(1, 0.01)),
            units={op.KV_BYTES: kv},
        )
        for kv in (mib * (1 << 20) + token * 20_000 for mib in kv_mib for token in range(12))
    ]
    return File(name, weight_bytes, elements, BYTES, samples, [READ * float(random.normal(1, 0.01)) for _ in range(20)])


def own() -> File:
    return file("Q8_0", {"Q8_0": LAYERS + HEAD}, (1, 6, 24))


def copies() -> list[File]:
    return [
        file("Q4_0", {"Q4_0": LAYERS, "Q8_0": HEAD}, seed=1),
        file("F16", {"F16": LAYERS + HEAD}, seed=2),
        file("Q8_0 half", {"Q8_0": LAYERS / 2 + HEAD}, seed=3),
        file("Q4_0 half", {"Q4_0": LAYERS / 2, "Q8_0": HEAD}, seed=4),
        file("F16 half", {"F16": LAYERS / 2 + HEAD}, seed=5),
    ]


def test_the_parts_of_a_token_are_the_planted_ones_and_sum_to_it() -> None:
    deepest = split(own(), depth_line(own()))[-1]
    weights = (LAYERS + HEAD) * BYTES["Q8_0"] / READ
    assert deepest.weights == pytest.approx(weights, rel=0.01)
    assert deepest.attention == pytest.approx(deepest.kv_bytes * ATTENTION_S, rel=0.1)
    assert deepest.rest == pytest.approx(TOKEN_S + (LAYERS + HEAD) * WEIGHT_S["Q8_0"], rel=0.1)
    parts = deepest.weights + deepest.kv + deepest.attention + deepest.rest
    assert parts == pytest.approx(deepest.token)


def test_every_depth_and_every_copy_has_a_row() -> None:
    finding = decode_gap_finding("m", own(), copies(), NODES)
    assert [row[0] for row in finding.rows[:3]] == ["Q8_0, 1.1 MiB", "Q8_0, 6.1 MiB", "Q8_0, 24.1 MiB"]
    assert len(finding.rows) == 8 and all(len(row) == len(finding.columns) for row in finding.rows)
    assert all(len(series.y) == 8 for series in finding.plot.series)


def test_what_grows_with_weights_is_told_from_what_every_token_pays() -> None:
    costs = weight_costs([own(), *copies()], 1 / READ + ATTENTION_S)
    assert costs is not None
    assert costs.token.low <= TOKEN_S <= costs.token.high and costs.token.half_width < 0.5
    for name, planted in WEIGHT_S.items():
        assert costs.weight[name].value == pytest.approx(planted, abs=3e-12)
        assert costs.weight[name].low < planted < costs.weight[name].high


def test_one_size_in_each_format_cannot_tell_them_apart() -> None:
    assert weight_costs([own(), *copies()[:2]], 1 / READ) is None
    assert "Too few sizes and formats" in decode_gap_finding("m", own(), copies()[:2], NODES).sentence


def test_a_format_that_only_one_file_has_is_left_out() -> None:
    mixed = file("F16", {"F16": LAYERS, "Q4_0": HEAD})
    costs = weight_costs([mixed, own(), copies()[2]], 1 / READ + ATTENTION_S)
    assert costs is not None and set(costs.weight) == {"Q8_0"}


def test_the_sentence_names_every_part() -> None:
    sentence = decode_gap_finding("m", own(), copies(), NODES).sentence
    for words in ("% the weights", "% the KV cache", "% attention beyond", "% the rest", "whatever is multiplied"):
        assert words in sentence
    assert "cannot be told" not in sentence and sentence.index("in Q8_0") < sentence.index("in F16")


def test_dequantisation_is_what_a_weight_takes_beyond_one_that_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a weight in Q8_0 takes 1" in decode_gap_finding("m", own(), copies(), NODES).sentence
    monkeypatch.setitem(WEIGHT_S, "Q8_0", WEIGHT_S["F16"])
    assert "dequantising Q8_0 costs nothing that" in decode_gap_finding("m", own(), copies(), NODES).sentence


def test_the_nodes_of_llama_cpp_have_their_kinds() -> None:
    assert kind_of("MUL_MAT", "ffn_up-3") == kind_of("MUL_MAT_ID", "ffn_moe_up-3") == WEIGHTS
    assert kind_of("MUL_MAT", "kqv-3") == kind_of("SOFT_MAX", "kq_soft_max-3") == ATTENTION
    assert kind_of("FLASH_ATTN_EXT", "__fattn__-3") == kind_of("SET_ROWS", "cache_k_l3 (view)") == ATTENTION
    assert kind_of("RMS_NORM", "norm-3") == OTHER and kind_of("RESHAPE", "Qcur-3") is None


def test_the_nodes_are_shared_out_and_their_overhead_is_stated() -> None:
    sentence = node_sentence(NODES)
    assert "12.0 ms (60 %) products with weights" in sentence and "6.0 ms (30 %) attention" in sentence
    assert "20.0 ms a token, without it 17.0" in sentence and "600 nodes" in sentence and "5.0 µs" in sentence
