"""The flags that choose and set engines, shared by the commands that run a pipeline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from agent import engine_notes
from agent.settings import AsrMode, EndpointMode, EngineSet, Settings

Command = TypeVar("Command", bound=Callable[..., Any])


class _Thinking(click.ParamType[int | str]):
    """A number of tokens, `on` or `off`."""

    name = "N|on|off"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value in ("on", "off"):
            return "on" if value == "on" else 0
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number of tokens nor `on` or `off`.", param, ctx)


@dataclass(frozen=True)
class _Flag:
    """A flag, the setting that it stands for, its help, and the values that click lets through."""

    name: str
    setting: str
    help: str
    type: Any = None
    metavar: str | None = None

    @property
    def keyword(self) -> str:
        return self.name.partition("/")[0].removeprefix("--").replace("-", "_")

    def given_as(self, value: object) -> str:
        """The flag by which this value is given."""
        on, _, off = self.name.partition("/")
        return off if off and value is False else on


_PATH = click.Path(path_type=Path)
_FLAGS = (
    _Flag(
        "--engines",
        "engines",
        "The models for a CPU, the big ones, or what fits here.",
        click.Choice(get_args(EngineSet)),
    ),
    _Flag("--device", "device", "Where the big models run: auto, cpu, cuda or cuda:N.", metavar="DEVICE"),
    _Flag("--asr", "asr.model", "A recogniser's name, or the path of a .nemo file.", metavar="MODEL"),
    _Flag(
        "--llm",
        "llm.model",
        "A language model's name, a GGUF file, or an OpenAI-compatible server's URL.",
        metavar="MODEL",
    ),
    _Flag("--tts", "tts.model", "A voice's name, or a folder with a VoxCPM2 checkpoint.", metavar="MODEL"),
    _Flag("--chunk", "asr.chunk_ms", "Chunk of the recogniser. Default 320.", int, "MS"),
    _Flag("--asr-language", "asr.language", "What is spoken, for a recogniser of many languages.", metavar="LANGUAGE"),
    _Flag(
        "--asr-flush/--no-asr-flush",
        "asr.flush",
        "At the end of speech, fill the last chunk with silence, or wait for it.",
    ),
    _Flag(
        "--asr-mode",
        "asr.mode",
        "`buffered` encodes overlapping windows, for comparison.",
        click.Choice(get_args(AsrMode)),
    ),
    _Flag("--endpoint", "endpoint.mode", "What ends a turn.", click.Choice(get_args(EndpointMode))),
    _Flag(
        "--hangover", "endpoint.hangover_s", "Silence before the turn ends, or before smart-turn is asked.", float, "S"
    ),
    _Flag("--barge-in/--no-barge-in", "barge_in.enabled", "Whether what the user says interrupts a reply."),
    _Flag(
        "--thinking", "llm.thinking_tokens", "Budget of unspoken tokens, `on` without one, or `off`.", _Thinking(), "N"
    ),
    _Flag("--max-tokens", "llm.max_tokens", "Longest reply, in tokens.", int, "N"),
    _Flag("--seed", "llm.seed", "Seed of the language model's sampling.", int),
    _Flag("--draft", "llm.draft", "GGUF file of a small model that drafts tokens.", _PATH),
    _Flag("--diffusion-steps", "tts.diffusion_steps", "Of VoxCPM2, per patch. Default 10.", int, "N"),
    _Flag("--voice", "tts.voice", "The voice of VoxCPM2, described in words.", metavar="TEXT"),
    _Flag("--reference-wav", "tts.reference_wav", "A recording of the voice, for VoxCPM2.", _PATH),
)


def pipeline_options(command: Command) -> Command:
    """Add the flags to a command; it gets their values as keyword arguments, for `settings_of`."""
    for flag in reversed(_FLAGS):
        option = click.option(flag.name, type=flag.type, metavar=flag.metavar, help=flag.help, default=None)
        command = option(command)
    return command


def settings_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The nested mapping of settings that the flags' values stand for; the value of a flag that was not given is
    None."""
    tree: dict[str, Any] = {}
    for flag in _FLAGS:
        section, _, name = flag.setting.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[name] = values[flag.keyword]
    return tree


def notes(settings: Settings) -> list[str]:
    """What the user should know of the engines that the settings (with a model for every stage) choose."""
    unused = [
        f"on {engine}: {', '.join(_given(settings, name) for name in names)}"
        for engine, names in engine_notes.unused(settings).items()
    ]
    without_effect = [f"Without effect {'; '.join(unused)}."] if unused else []
    return [*without_effect, *engine_notes.about_the_gpu(settings)]


def _given(settings: Settings, setting: str) -> str:
    """A setting as its flag, where it has one."""
    section, _, name = setting.partition(".")
    flag = next((flag for flag in _FLAGS if flag.setting == setting), None)
    return flag.given_as(getattr(getattr(settings, section), name)) if flag else setting
