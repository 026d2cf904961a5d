"""What a study is, and what it gets to work with."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Protocol, cast

from agent.asr.protocol import AsrEngine
from agent.engine_choice import choose
from agent.experiments.workload.book import work_book
from agent.llm.protocol import LlmEngine
from agent.loading import load_asr, load_llm, load_tts
from agent.settings import Settings
from agent.tts.protocol import TtsEngine
from profiling.studies.finding import Finding
from profiling.trace.clock import Clock
from profiling.work_book import WorkBook

# By name, its question. The file is named for it, with underscores.
STUDIES = {
    "prefill": "What do short prompts cost beside their arithmetic?",
    "patch": "What is a patch made of, and what is a diffusion step worth?",
    "fixed-cost": "What is the fixed cost of a phrase, and what of it is set-up?",
    "first-audio": "Does intercept + one patch predict when a phrase is first heard?",
    "finalisation": "How long after speech is the transcript final, flushed or not?",
    "decode-gap": "Where does the rest of the decode ceiling go: KV cache, attention, dequantisation, gaps?",
    "concurrency": "How much of its speed does each of several replies keep, up to twice the ridge batch?",
    "engines": "What does a server cost, per request and per token, beside the same model in-process?",
    "bandwidth": "How fast does one thread read memory, and do small batches follow the law?",
}


class Study(Protocol):
    """The module of a study."""

    @staticmethod
    def run(bench: "Bench") -> Finding:
        """Measure and answer. Raises TurnscopeError where the settings' engines cannot be studied so."""
        ...


def study(name: str) -> Study:
    """One of STUDIES; what it measures with is imported with it."""
    return cast(Study, import_module(f"agent.experiments.studies.{name.replace('-', '_')}"))


@dataclass
class Bench:
    """Where a study works: `settings` name a model for every stage, whose engines are loaded when they are first asked
    for, on the calling thread, and are not warm; `tell` is called with what is being done. `budget_s` is about how long
    the measurements may take with engines that are fast enough."""

    settings: Settings
    clock: Clock
    tell: Callable[[str], None]
    budget_s: float = 60.0

    @cached_property
    def asr(self) -> AsrEngine:
        self.tell("loading the recogniser")
        return load_asr(self.settings, choose(self.settings), self.clock)

    @cached_property
    def llm(self) -> LlmEngine:
        self.tell("loading the language model")
        return load_llm(self.settings, choose(self.settings), self.clock)

    @cached_property
    def tts(self) -> TtsEngine:
        self.tell("loading the voice")
        return load_tts(self.settings, choose(self.settings), self.clock)

    @cached_property
    def book(self) -> WorkBook:
        """The work of the engines' operations."""
        self.tell("counting the engines' work")
        return work_book(self.settings)
