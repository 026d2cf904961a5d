"""The line that says which models talk, and where each computes."""

from types import SimpleNamespace
from typing import Any

import pytest

from agent.cli.replay import _who_talks
from agent.engine_choice import Places


@pytest.mark.parametrize(
    ("places", "line"),
    [
        (Places("cpu", "cpu", "cpu"), "Hearing with a, thinking with b, speaking with c."),
        (Places("cpu", None, "cpu"), "Hearing with a, thinking with b, speaking with c."),
        (
            Places("cuda:1", "cpu", "cuda:1"),
            "Hearing with a on cuda:1, thinking with b on the CPU, speaking with c on cuda:1.",
        ),
        (
            Places("cpu", "gpu", "cpu"),
            "Hearing with a on the CPU, thinking with b on the GPU, speaking with c on the CPU.",
        ),
        (Places("cpu", None, "cuda"), "Hearing with a on the CPU, thinking with b, speaking with c on cuda."),
    ],
)
def test_each_engine_is_named_with_its_own_device_where_one_is_no_cpu(places: Places, line: str) -> None:
    asr, llm, tts = (SimpleNamespace(model=name) for name in "abc")
    engines: Any = SimpleNamespace(asr=asr, llm=llm, tts=tts)
    assert _who_talks(engines, places) == line
