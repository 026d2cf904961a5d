"""What a patch is made of, on patches whose parts and laws are planted."""

from collections.abc import Mapping

import numpy as np
import pytest

from profiling import operations as op
from profiling.calibration import Sample
from profiling.studies.patch import FRAMES, Setting, patch_finding
from profiling.work_book import Linear, OperationWork, TermLaw

FORWARD_S, LM_S, VAE_S = 0.006, 0.015, 0.007
WORK = OperationWork(
    terms=(
        TermLaw(part="diffusion", rate="r", flops=Linear(per={op.FORWARDS: 6e9}), bytes=Linear(constant=3e6)),
        TermLaw(part="vae", rate="r", flops=Linear(constant=7e9)),
    )
)


def voxcpm(steps: int, noise: float = 0.0, forward_s: float = FORWARD_S, vae_s: float = VAE_S) -> Setting:
    """Six phrases of three patches."""
    random, forwards = np.random.default_rng(steps), steps - 1
    phrases: list[tuple[Sample, ...]] = []
    for _ in range(6):
        speed = 1 + noise * random.normal()
        parts_s = {"base_lm": LM_S * speed, "diffusion": forwards * forward_s * speed, "vae": vae_s * speed}
        phrases.append((sample(parts_s, {op.FORWARDS: forwards}),) * 3)
    return Setting(f"{steps} diffusion steps", tuple(phrases))


def piper(frames: int, fixed_s: float = 0.003, frame_s: float = 0.0002) -> Setting:
    patch = sample({"decode": fixed_s + frame_s * frames}, {FRAMES: frames})
    return Setting(f"{frames} frames", ((patch, patch), (patch, patch)))


def sample(parts_s: Mapping[str, float], units: Mapping[str, float], rest_s: float = 0.0) -> Sample:
    return Sample(operation=op.PATCH, duration_s=sum(parts_s.values()) + rest_s, units=units, parts_s=parts_s)


def rows(settings: list[Setting], work: OperationWork | None = WORK) -> dict[str, tuple[str, ...]]:
    found = patch_finding("a voice", settings, settings[0].patches[:2], work)
    assert all(len(row) == len(found.columns) for row in found.rows)
    return {row[0]: row[1:] for row in found.rows}


def test_the_parts_of_a_patch_have_their_time_share_and_work() -> None:
    found = rows([voxcpm(10), voxcpm(4)])
    assert found["diffusion"][:5] == ("54", "54 to 54", "71 %", "1e+03", "0.0556")  # 9 x 6 GFLOP in 54 ms
    assert found["VAE"][:5] == ("7", "7 to 7", "9 %", "1e+03", "")
    assert found["base LM"][3:5] == ("", "")  # its work is not known
    assert found["10 diffusion steps"][:3] == ("76", "76 to 76", "100 %")
    assert found["4 diffusion steps"][2] == "53 %" and found["first patch"][-1] == "2"


def test_the_cost_of_a_forward_and_the_rest_come_back() -> None:
    found = patch_finding("a voice", [voxcpm(steps) for steps in (10, 4, 6, 8)], [], WORK)
    regression = found.data["regression"]
    assert regression["slope_s"]["value"] == pytest.approx(FORWARD_S)
    assert regression["rest_s"]["value"] == pytest.approx(LM_S + VAE_S)
    assert "Diffusion dominates a patch: 71 % of 76 ms." in found.sentence
    assert "one diffusion step fewer makes a patch 7.9 % shorter; 22 ms" in found.sentence


def test_under_noise_the_cost_of_a_forward_lies_within_its_bounds() -> None:
    held = 0
    for shift in range(20):
        noisy = [voxcpm(steps, 0.05, FORWARD_S * (1 + shift / 10)) for steps in (10, 4, 6, 8)]
        bounds = patch_finding("a voice", noisy, [], None).data["regression"]["slope_s"]
        held += bounds["low"] <= FORWARD_S * (1 + shift / 10) <= bounds["high"]
    assert held >= 18


def test_two_parts_whose_bounds_touch_do_not_dominate() -> None:
    alike = [voxcpm(10, 0.1, vae_s=9 * FORWARD_S), voxcpm(4, 0.1, vae_s=9 * FORWARD_S)]
    assert patch_finding("a voice", alike, [], None).sentence.startswith("No part of a patch dominates clearly: ")


def test_steps_that_cost_nothing_give_nothing() -> None:
    free = [voxcpm(10, 0.05, forward_s=0.0), voxcpm(4, 0.05, forward_s=0.0)]
    assert "What one forward costs was not seen" in patch_finding("a voice", free, [], None).sentence


def test_time_outside_all_parts_is_shown() -> None:
    outside = Setting("10 diffusion steps", ((sample({"diffusion": 0.05}, {op.FORWARDS: 9}, rest_s=0.05),),))
    assert rows([outside, voxcpm(4)], None)["rest"][2] == "50 %"


def test_without_diffusion_the_size_of_a_patch_is_what_its_time_grows_with() -> None:
    settings = [piper(frames) for frames in (48, 16, 32, 96)]
    found = patch_finding("a voice", settings, [], None, overlap=12)
    assert "nothing but decode" in found.sentence and "A frame takes 0.2 ms" in found.sentence
    assert "worth 15 frames; the 24 that overlap" in found.sentence
    assert found.plot.series[0].style == "points" and found.plot.x_label == "frames of the patch"


def test_patches_of_one_size_only_give_no_law() -> None:
    with pytest.raises(ValueError, match="same x"):
        patch_finding("a voice", [piper(48)], [], None)
