"""A GGUF file behind `llama_cpp.server` on loopback, for as long as a block lasts."""

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agent.errors import TurnscopeError
from agent.temporary import temporary_folder, undone
from profiling.trace.clock import Clock, seconds

_START_S, _END_S, _POLL_S = 120.0, 15.0, 0.05
_NEEDED = ("uvicorn", "fastapi", "sse_starlette", "starlette_context", "pydantic_settings")
_LISTENS = re.compile(r"running on (http://127\.0\.0\.1:\d+)")
_TOLD_CHARACTERS = 200


@contextmanager
def served(path: Path, settings: Mapping[str, object], clock: Clock) -> Generator[str]:
    """The address, with /v1. `settings` are those of llama_cpp.server's models. The port is one that is free. The
    server ends with the block. Raises TurnscopeError where the server is not installed or does not start."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise TurnscopeError(
            f"llama.cpp's server for Python needs {' and '.join(missing)}, which is not installed: run `pip install "
            "'llama-cpp-python[server]'` in Turnscope's environment first."
        )
    with temporary_folder() as folder:
        config, log = folder / "server.json", folder / "server.log"
        model = {"model": str(path.resolve()), "verbose": False, **settings}
        config.write_text(json.dumps({"host": "127.0.0.1", "port": 0, "models": [model]}), encoding="utf-8")
        with log.open("wb") as output:
            command = [sys.executable, "-m", "llama_cpp.server", "--config_file", str(config)]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        with undone(lambda: _end(process)):
            yield f"{_address(process, log, clock)}/v1"


def _address(process: "subprocess.Popen[bytes]", log: Path, clock: Clock) -> str:
    """Where the server listens, once its log says so."""
    begun_ns = clock.now_ns()
    while not _ends_within(process, _POLL_S) and seconds(clock.now_ns() - begun_ns) < _START_S:
        if listening := _LISTENS.search(log.read_text(encoding="utf-8", errors="replace")):
            return listening[1]
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no reason given"]
    raise TurnscopeError(
        f"llama.cpp's server for Python did not start within {_START_S:.0f} s ({lines[-1][:_TOLD_CHARACTERS]}): run "
        "`python -m llama_cpp.server --model FILE` to see why."
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    if not _ends_within(process, _END_S):
        process.kill()
        process.wait()


def _ends_within(process: "subprocess.Popen[bytes]", timeout_s: float) -> bool:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True
