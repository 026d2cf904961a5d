"""`turnscope talk`: speak into a microphone and be answered through a loudspeaker; each turn says why it took so
long."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.audio import sound_devices
from agent.audio.pace import precise_loop
from agent.audio.sound_devices import SoundDevice
from agent.cli import consoles, surveying
from agent.cli.gathering import gather
from agent.cli.live import printable
from agent.cli.loading_engines import chosen, engines_ready, say_what_to_know
from agent.cli.pipeline_options import pipeline_options
from agent.cli.recorded_run import collector_at, require_runs_folder
from agent.errors import TurnscopeError
from agent.experiments.calibration import store
from agent.recording_folder import new_recording
from profiling.trace.clock import SystemClock


@click.command()
@click.option("--input", "microphone", metavar="NAME", help="The microphone, by name or number. See --devices.")
@click.option("--output", "loudspeaker", metavar="NAME", help="The loudspeaker, by name or number.")
@click.option("--devices", "list_devices", is_flag=True, help="List the sound devices and exit.")
@click.option("--headset", is_flag=True, help="No echo cancellation: the microphone cannot hear the loudspeaker.")
@click.option("--detail", is_flag=True, help="After each turn the full table instead of one line.")
@click.option("--record", "recording", metavar="NAME", help="Save what you say as a scenario, in recordings/NAME.")
@click.option("--config", type=click.Path(path_type=Path), help="Settings file (TOML).")
@pipeline_options
@click.option("--content", is_flag=True, default=None, help="Keep transcripts and replies in the trace.")
@click.option("--otlp", metavar="URL", help="Also send the spans to this OTLP/HTTP collector.")
@click.option(
    "--calibrate/--no-calibrate",
    "measured",
    default=None,
    help="Measure machine and engines alone first. Default: use what was measured before, if anything was.",
)
@click.option(
    "--runs", "runs_folder", type=click.Path(path_type=Path), default=Path("runs"), help="Where run folders go."
)
def talk(
    microphone: str | None,
    loudspeaker: str | None,
    list_devices: bool,
    headset: bool,
    detail: bool,
    recording: str | None,
    config: Path | None,
    content: bool | None,
    otlp: str | None,
    measured: bool | None,
    runs_folder: Path,
    **pipeline: Any,
) -> None:
    """Talk to the agent through a microphone and a loudspeaker.

    After each turn one line says how long you waited and for what. `q` or Ctrl-C ends the conversation.
    """
    console, notes = consoles.output(), consoles.notes()
    devices = sound_devices.table()
    if list_devices:
        return _print_devices(console, devices)
    settings = chosen(config, pipeline, capture_content=content)
    sound_devices.choose(devices, "input", microphone)
    sound_devices.choose(devices, "output", loudspeaker)
    say_what_to_know(settings, notes)
    collector = collector_at(otlp) if otlp else None
    require_runs_folder(runs_folder)
    try:
        from agent.audio.microphone import Microphone  # imported late: they need what only `talk` needs
        from agent.cli.talking import Talking
    except ModuleNotFoundError as error:
        raise TurnscopeError(f"The Python package {error.name} is missing: run `make setup-sound`.") from None
    folder = new_recording(recording) if recording is not None else None
    try:
        with engines_ready(settings, notes) as engines:
            known = surveying.known() is not None and store.find(settings) is not None
            clock = SystemClock()
            gathered = gather(settings, engines, clock, notes, measured=known if measured is None else measured)
            talking = Talking(
                engines, settings, gathered, clock, console, runs_folder, collector, folder, detail=detail
            )
            edge = Microphone(clock, engines.tts.sample_rate, microphone, loudspeaker, headset=headset)
            with asyncio.Runner(loop_factory=precise_loop) as runner:
                runner.run(talking.through(edge))
    finally:
        if folder is not None:
            with suppress(OSError):  # it holds something
                folder.rmdir()
    return None


def _print_devices(console: Console, devices: Sequence[SoundDevice]) -> None:
    """Raises TurnscopeError when there is none."""
    if not devices:
        raise TurnscopeError("No sound device was found: plug one in, or start the sound server of this machine.")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("number", "name", "sound system", "in", "out", "rate (Hz)", "default for"):
        table.add_column(name, justify="right" if name in ("number", "in", "out", "rate (Hz)") else "left")
    for device in devices:
        texts = (printable(device.name), printable(device.host_api))
        figures = (device.inputs, device.outputs, device.default_rate_hz)
        roles = " and ".join(sorted(device.is_default))
        table.add_row(str(device.number), *map(Text, texts), *map(str, figures), roles)
    console.print(table)
