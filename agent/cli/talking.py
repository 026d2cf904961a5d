"""A conversation through a sound device, as it is shown on the terminal and kept in a run folder."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from agent.audio.microphone import Microphone
from agent.cli import consoles
from agent.cli.gathering import Gathered
from agent.cli.keys import keys
from agent.cli.live import LiveDisplay
from agent.cli.recorded_run import RecordedRun, recorded_run
from agent.cli.run_report import command, print_ended, who_talks
from agent.cli.toggling import TOGGLE_OF_KEY, Toggling
from agent.engine_choice import places
from agent.engines import Engines
from agent.errors import TurnscopeError
from agent.events import Event, TurnEnded
from agent.recording import ScenarioRecorder
from agent.recording_folder import SETTINGS_FILE
from agent.scenario_file import FILE_NAME
from agent.settings import Settings
from agent.talk import DeviceBack, DeviceLost, Talk
from profiling.report.breakdown import breakdown_line
from profiling.report.style import plain
from profiling.trace.clock import Clock
from profiling.whole_file import write_whole

if TYPE_CHECKING:
    from profiling.trace.collector import Collector

COMMAND = "turnscope talk"
HELP = (
    "Between turns: t changes the thinking budget, c the recogniser's chunk, v the voice; the next turn is shown "
    "beside the last. d shows all of a turn or one line, q ends the conversation."
)


@dataclass
class Talking:
    """`recording` is the empty folder of a scenario, if one is to be recorded; `detail` shows all of a turn."""

    engines: Engines
    settings: Settings
    gathered: Gathered
    clock: Clock
    console: Console
    runs_folder: Path
    collector: "Collector | None" = None
    recording: Path | None = None
    detail: bool = field(default=False, kw_only=True)

    async def through(self, edge: Microphone) -> None:
        """Until the user ends it."""
        try:
            await self._run(edge)
        finally:
            self._tell_how_to_replay()

    async def _run(self, edge: Microphone) -> None:
        async with AsyncExitStack() as device:
            await device.enter_async_context(edge)
            with recorded_run(
                self.runs_folder,
                "talk",
                self.settings,
                self.engines,
                self.gathered,
                self.clock,
                self.console,
                self.console,
                collector=self.collector,
            ) as run:
                try:
                    await self._converse(edge, run)
                    run.session.complete = True
                    self.gathered.probe(run.folder, self.clock)
                except asyncio.CancelledError:
                    run.session.complete = True  # Ctrl-C is the user's end too
                    raise
                finally:
                    await device.aclose()
                    self._tell_what_was_lost(edge)

    def _tell_what_was_lost(self, edge: Microphone) -> None:
        lost = {"came in": edge.overflows, "went out": edge.underruns}
        if any(lost.values()):
            times = " and ".join(f"{count} times as it {way}" for way, count in lost.items() if count)
            consoles.note(self.console, f"Sound was lost or late {times}: the machine was too busy.")

    def _tell_how_to_replay(self) -> None:
        if self.recording is not None and (self.recording / FILE_NAME).exists():
            line = f"  replay    {command()} replay {self.recording} --config {self.recording / SETTINGS_FILE}"
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    async def _converse(self, edge: Microphone, run: RecordedRun) -> None:
        bottom: list[Callable[[], str]] = []
        display = LiveDisplay(self.console, self._explain, lambda: bottom[0]() if bottom else "")
        scenario = self._scenario(display.say)

        def observe(event: Event | DeviceLost | DeviceBack) -> None:
            match event:
                case DeviceLost(reason):
                    display.say(f"{reason} Waiting …")
                case DeviceBack():
                    display.say("The sound device is back: the conversation goes on.")
                case _:
                    toggling.observe(event)
                    run.session.observe(event)
                    display.observe(event)

        talk = Talk(edge, self.engines, self.settings, self.clock, observe, run.recording, scenario)
        self._toggling = toggling = Toggling(talk, self.clock, display.say)
        self._introduce(edge, scenario)
        pressed = _Pressed(talk, toggling, display, self._change_detail)
        async with display:
            with keys(pressed) as there_are_keys:
                bottom.append(self._bottom_line if there_are_keys else lambda: "Ctrl-C ends the conversation")
                try:
                    await talk.run()
                finally:
                    await toggling.close()

    def _scenario(self, say: Callable[[str], None]) -> ScenarioRecorder | None:
        if self.recording is None:
            return None
        return ScenarioRecorder(self.recording, self.settings, self.clock, write=write_whole, tell=say, command=COMMAND)

    def _introduce(self, edge: Microphone, scenario: ScenarioRecorder | None) -> None:
        lines = [who_talks(self.engines, places(self.settings))]
        if edge.devices is not None:
            microphone, loudspeaker = edge.devices
            lines.append(f"Microphone: {microphone.name}. Loudspeaker: {loudspeaker.name}.")
        for line in lines:
            self.console.print(plain(line, self.console), style="dim", highlight=False, markup=False)
        if scenario is not None:
            self.console.print(scenario.announcement, style="bold yellow", highlight=False, markup=False)
        self.console.print("Speak.\n", highlight=False)

    def _explain(self, event: TurnEnded, number: int) -> None:
        effect = self._toggling.effect(event.turn)
        if self.detail:
            print_ended(self.console, event, number)
        else:
            for who, text, style in (("you", event.transcript, "cyan"), ("agent", event.heard, "green")):
                if text.strip():
                    line = Text.assemble((f"{who:>6}  ", f"bold {style}"), plain(text, self.console))
                    self.console.print(line, highlight=False)
            self._print_below(breakdown_line(event.turn), "dim")
        if event.error is not None:
            told = isinstance(event.error, TurnscopeError)
            reason = str(event.error) if told else f"{type(event.error).__name__} in an engine."
            self._print_below(plain(reason, self.console), "red")
        if effect is not None:
            self._print_below(effect, "bold")
        self.console.print()

    def _print_below(self, sentence: str, style: str) -> None:
        """Beside the words of the turn, also where it takes several lines."""
        self.console.print(Padding(Text(sentence, style), (0, 0, 0, 8)))

    def _bottom_line(self) -> str:
        if self._toggling.loading:
            return f"loading {self._toggling.loading} …"
        toggles = " | ".join(f"{key} {self._toggling.shown(key)}" for key in TOGGLE_OF_KEY)
        return f"{toggles} | d {'one line' if self.detail else 'detail'} | q quit | ? help"

    def _change_detail(self) -> None:
        self.detail = not self.detail


class _Pressed:
    """What each key does."""

    def __init__(self, talk: Talk, toggling: Toggling, display: LiveDisplay, change_detail: Callable[[], None]):
        self._talk = talk
        self._toggling = toggling
        self._display = display
        self._change_detail = change_detail
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, key: str) -> None:
        match key.lower():
            case "q":
                self._talk.stop()
            case "?" | "h":
                self._display.say(HELP)
            case "d":
                self._change_detail()
            case toggle if toggle in TOGGLE_OF_KEY:
                task = asyncio.create_task(self._turn(toggle))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case _:
                return
        self._display.refresh()

    async def _turn(self, key: str) -> None:
        await self._toggling.turn(key)
        self._display.refresh()
