"""The line that says which models talk, and where each computes; and how the program is called again."""

from types import SimpleNamespace
from typing import Any

import pytest

from agent.cli.run_report import command, who_talks
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
    assert who_talks(engines, places) == line


def test_names_do_not_control_the_terminal() -> None:
    engines: Any = SimpleNamespace(
        **{stage: SimpleNamespace(model="m\x1b[2J\n\ud800") for stage in ("asr", "llm", "tts")}
    )
    line = who_talks(engines, Places("cpu", "cpu", "cpu"))
    assert line == "Hearing with m[2J, thinking with m[2J, speaking with m[2J."


@pytest.mark.parametrize(
    ("installed", "called", "typed"),
    [
        ("/bin/turnscope", "/house/agent/cli/__main__.py", "turnscope"),
        (None, "/house/agent/cli/__main__.py", "python -m agent.cli"),
        (None, "/elsewhere/bin/turnscope", "/elsewhere/bin/turnscope"),
    ],
)
def test_the_command_as_one_would_type_it(
    installed: str | None, called: str, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: installed)
    monkeypatch.setattr("sys.argv", [called])
    assert command() == typed
