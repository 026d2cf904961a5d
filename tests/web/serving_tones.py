"""`turnscope serve` with engines of tones, as a process of its own: FOLDER for the runs; the address is printed."""

import asyncio
import sys
from pathlib import Path

from agent.audio.pace import precise_loop
from agent.cli import interruption
from agent.cli.gathering import Gathered
from agent.cli.serve import serve_until_stopped
from agent.cli.serving import CallFolders
from agent.cli.turn_view import turn_view
from agent.web.server import Address
from agent.web.service import Service
from profiling.work_book import WorkBook
from tests.web.tones import BusyClock, tone_engines, tone_settings


def main() -> None:
    clock, engines, settings = BusyClock(), tone_engines(), tone_settings()
    folders = CallFolders(Path(sys.argv[1]), settings, {}, Gathered(WorkBook()), clock)
    service = Service(
        engines, settings, clock, folders.open, turn_view, folders.report, lambda sentence: print(sentence, flush=True)
    )
    interruption.treat_sigterm_as_ctrl_c()
    try:
        with asyncio.Runner(loop_factory=precise_loop) as runner:
            runner.run(
                serve_until_stopped(service, Address("127.0.0.1", 0), lambda bound: print(bound.url, flush=True))
            )
    except KeyboardInterrupt:
        asyncio.run(engines.workers.close())
        interruption.leave(interruption.exit_code())


if __name__ == "__main__":
    main()
