"""How every command with engines begins: settings, what the user should know of them, models, engines."""

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from agent import models
from agent.cli import consoles
from agent.cli.interruption import ending_at_once
from agent.cli.pipeline_options import notes as engine_sentences
from agent.cli.pipeline_options import settings_of
from agent.engine_choice import needed_models, with_models
from agent.engines import Engines
from agent.loading import load_engines
from agent.settings import Settings, load
from profiling.trace.clock import SystemClock


def chosen(config: Path | None, pipeline: Mapping[str, Any], **others: Any) -> Settings:
    """The settings of a file, of the pipeline's flags and of `others`, with a model for every stage. Raises
    TurnscopeError."""
    return with_models(load(config, settings_of(pipeline) | others))


def say_what_to_know(settings: Settings, notes: Console) -> None:
    """Of the engines that the settings choose."""
    for sentence in engine_sentences(settings):
        consoles.note(notes, sentence)


def fetch_absent(settings: Settings, notes: Console) -> None:
    """Those of the default set-up's models that the settings use; others are fetched when the user says so."""
    embedded = models.embedded_models()
    models.ensure([name for name in needed_models(settings) if name in embedded], notes)


@contextmanager
def engines_ready(settings: Settings, notes: Console) -> Generator[Engines]:
    """Loaded and warm, for as long as the block lasts; what they lack is fetched, and the progress shown. Raises
    TurnscopeError."""
    fetch_absent(settings, notes)
    with ending_at_once(), consoles.progress(notes, "Getting ready: {} …") as tell:
        engines = load_engines(settings, SystemClock(), tell)
    try:
        yield engines
    finally:
        asyncio.run(engines.workers.close())
