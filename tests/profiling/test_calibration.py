"""A calibration: its samples by operation, the laws fitted to them, and its file."""

import numpy as np
import pytest
from pydantic import ValidationError

from profiling.calibration import Calibration, FirstAudio, Rates, Sample
from profiling.environment import Machine
from profiling.operations import ENCODED_S, PREFILL, SETUP, TOKENS, UNITS

MACHINE = Machine(platform="Linux", cpu="a CPU", cores=2, usable_cores=2)


def prefills() -> list[Sample]:
    """0.02 s and 1 ms a token, 2 % noise, one measurement disturbed."""
    rng = np.random.default_rng(1)
    tokens = [16, 32, 64, 128, 256, 512] * 4
    samples = [
        Sample(operation=PREFILL, duration_s=(0.02 + 0.001 * t) * (1 + 0.02 * rng.standard_normal()), units={TOKENS: t})
        for t in tokens
    ]
    samples[7] = samples[7].model_copy(update={"duration_s": 3.0})
    return samples


CALIBRATION = Calibration(
    made="2026-03-01T10:15:02+00:00",
    machine=MACHINE,
    engines={"asr": "moonshine", "llm": "smollm2", "tts": "piper"},
    samples=(*prefills(), Sample(operation=SETUP, duration_s=0.04, units={UNITS: 31}, parts_s={"encode": 0.03})),
    phrases=(FirstAudio(units=31, setup_s=0.04, patch_ends_s=(0.07, 0.1), audio_ends_s=(0.4, 0.8), checks=True),),
    ceilings=(Rates(name="read", unit="B/s", device="cpu", threads=2, values=(25e9, 26e9)),),
    warnings=("The machine was busy.",),
    took_s=41.5,
)


def test_samples_by_operation() -> None:
    assert len(CALIBRATION.of(PREFILL)) == 24 and CALIBRATION.of(SETUP)[0].parts_s == {"encode": 0.03}
    assert CALIBRATION.of("tts.patch") == []


def test_the_law_of_an_operation_is_found_in_spite_of_a_disturbed_measurement() -> None:
    law = CALIBRATION.law(PREFILL)
    assert law is not None and law.names == (TOKENS,) and law.n == 24
    assert law.at({TOKENS: 300}) == pytest.approx(0.32, rel=0.02)
    assert law.constant.low <= 0.02 <= law.constant.high
    assert law.coefficients[TOKENS].low <= 0.001 <= law.coefficients[TOKENS].high


def test_an_operation_that_was_not_measured_has_no_law() -> None:
    assert CALIBRATION.law("llm.token") is None


def test_a_single_measurement_is_a_constant() -> None:
    law = CALIBRATION.law(SETUP)
    assert law is not None and law.names == () and law.at({UNITS: 99, ENCODED_S: 1}) == pytest.approx(0.04)
    assert law.n == 1


def test_a_calibration_comes_back_from_json_as_it_was() -> None:
    assert Calibration.model_validate_json(CALIBRATION.model_dump_json()) == CALIBRATION


def test_a_calibration_of_a_later_version_is_read_without_what_is_not_known() -> None:
    text = CALIBRATION.model_dump_json().replace('"took_s"', '"unheard_of": [1], "took_s"')
    assert Calibration.model_validate_json(text) == CALIBRATION


@pytest.mark.parametrize("text", ["", "{", "{}", '{"made": "now", "machine": 5, "engines": {}}'])
def test_a_damaged_calibration_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        Calibration.model_validate_json(text)
