"""`turnscope serve`: a page to talk to, for a few callers at once."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from agent.audio.pace import precise_loop
from agent.cli import consoles, surveying
from agent.cli.gathering import gather
from agent.cli.loading_engines import chosen, engines_ready, say_what_to_know
from agent.cli.pipeline_options import pipeline_options
from agent.cli.recorded_run import _model_hashes, require_runs_folder
from agent.errors import TurnscopeError
from agent.experiments.calibration import store
from profiling.trace.clock import SystemClock

if TYPE_CHECKING:
    import socket

    from agent.web.server import Address
    from agent.web.service import Service

_PATH = click.Path(path_type=Path)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Another address needs a token and TLS.")
@click.option("--port", type=click.IntRange(0, 65535), default=8760, show_default=True, help="0: any that is free.")
@click.option("--token", help="What a browser must show: the page's address then ends in ?token=TOKEN.")
@click.option("--certificate", type=_PATH, metavar="PEM", help="For https.")
@click.option("--key", type=_PATH, metavar="PEM", help="The certificate's.")
@click.option("--callers", type=click.IntRange(1, 16), default=3, show_default=True, help="At once, at most.")
@click.option("--record", metavar="NAME", help="Save what callers say as scenarios: recordings/NAME, NAME-2 ...")
@click.option("--config", type=_PATH, help="Settings file (TOML).")
@pipeline_options
@click.option("--content", is_flag=True, default=None, help="Keep transcripts and replies in the traces.")
@click.option(
    "--calibrate/--no-calibrate",
    "measured",
    default=None,
    help="Measure machine and engines alone first. Default: use what was measured before, if anything was.",
)
@click.option("--runs", "runs_folder", type=_PATH, default=Path("runs"), help="Where run folders go.")
def serve(
    host: str,
    port: int,
    token: str | None,
    certificate: Path | None,
    key: Path | None,
    callers: int,
    record: str | None,
    config: Path | None,
    content: bool | None,
    measured: bool | None,
    runs_folder: Path,
    **pipeline: Any,
) -> None:
    """Serve a page to talk to: every turn is drawn there as it is answered, and kept in a run folder per call."""
    with ExitStack() as at_the_end:
        address = _address(host, port, token, certificate, key)
        settings = chosen(config, pipeline, capture_content=content)
        require_runs_folder(runs_folder)
        listening = at_the_end.enter_context(_claimed(address))
        from agent.cli.serving import CallFolders, Recordings
        from agent.cli.turn_view import turn_view
        from agent.web.service import Service

        console, notes, clock = consoles.output(), consoles.notes(), SystemClock()

        def note(sentence: str) -> None:
            consoles.note(notes, sentence)

        say_what_to_know(settings, notes)
        recordings = Recordings(record, settings, clock, note) if record is not None else None
        if recordings is not None:
            at_the_end.callback(recordings.close)
        engines = at_the_end.enter_context(engines_ready(settings, notes))
        known = surveying.known() is not None and store.find(settings) is not None
        gathered = gather(settings, engines, clock, notes, measured=known if measured is None else measured)
        folders = CallFolders(runs_folder, settings, _model_hashes(settings), gathered, clock)
        service = Service(
            engines,
            settings,
            clock,
            open_run=folders.open,
            view=turn_view,
            report=folders.report,
            note=note,
            limit=callers,
            open_recorder=recordings.open if recordings else None,
        )

        def say_where(bound: "Address") -> None:
            _say_where(console, bound, callers, record)

        with asyncio.Runner(loop_factory=precise_loop) as runner:
            runner.run(serve_until_stopped(service, address, say_where, listening))


async def serve_until_stopped(
    service: "Service",
    address: "Address",
    ready: "Callable[[Address], None]",
    listening: "socket.socket | None" = None,
) -> None:
    """Until the task is cancelled, as Ctrl-C does."""
    from agent.web.server import serving

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: service.note(f"In the background: {context['message']}"))
    async with serving(service, address, at=listening) as bound:
        ready(bound)
        await asyncio.Event().wait()


def _address(host: str, port: int, token: str | None, certificate: Path | None, key: Path | None) -> "Address":
    try:
        from agent.web.guard import check_address
        from agent.web.server import Address, tls_context
    except ImportError as error:
        raise TurnscopeError(
            f"`turnscope serve` needs the package {error.name}: install `turnscope[web]` (aiohttp and aiortc)."
        ) from None
    check_address(host, token, certificate, key)
    tls = tls_context(certificate, key) if certificate and key else None
    return Address(host, port, token, tls)


def _claimed(address: "Address") -> "socket.socket":
    """Before anything is loaded."""
    from agent.web.server import claimed

    return claimed(address)


def _say_where(console: Console, bound: "Address", callers: int, record: str | None) -> None:
    lines = "one caller" if callers == 1 else f"{callers} callers"
    with_token = " (with ?token=... at the end)" if bound.token else ""
    console.print(
        f"Talk at {bound.url}{with_token}. There is room for {lines} at once; Ctrl-C ends it.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    if record is not None:
        told = f"What callers say is recorded: recordings/{record}. Their page tells them."
        console.print(told, style="bold", highlight=False, markup=False, soft_wrap=True)
