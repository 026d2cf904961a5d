"""The real small model, loaded once, and helpers that read a generation."""

from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import pytest

from agent.llm import context
from agent.llm.llama import LlamaEngine
from agent.models import locate
from tests.fakes.ticking import TickingClock


@pytest.fixture(scope="session", autouse=True)
def on_the_cpu() -> Iterator[None]:
    """What is compared to the bit is a CPU's arithmetic."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama_cpp, "llama_supports_gpu_offload", lambda: False)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tests run side by side: an engine that takes every core waits for the others most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "usable_cores", lambda: 1)
        yield


@pytest.fixture(scope="session")
def gguf_path() -> Path:
    return locate("smollm2-135m") / "model.gguf"


@pytest.fixture(scope="module")
def engine(gguf_path: Path) -> Iterator[LlamaEngine]:
    engine = LlamaEngine(gguf_path, clock=TickingClock(), name="smollm2-135m", context_tokens=512)
    yield engine
    engine.close()
