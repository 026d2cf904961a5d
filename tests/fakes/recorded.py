"""A conversation in virtual time that is recorded as a scenario."""

from collections.abc import Callable, Sequence
from pathlib import Path

from agent.events import Event, TurnEnded
from agent.recording import ScenarioRecorder
from agent.recording_folder import Write
from agent.scenario import Utterance
from agent.settings import Settings, load
from agent.talk import DeviceBack, DeviceLost, Talk
from profiling.whole_file import write_whole
from tests.fakes.edge import FakeDevice
from tests.fakes.engines import fake_engines
from tests.fakes.talk import scenario
from tests.fakes.virtual_time import VirtualClock, run_virtually


class Recorded:
    """A conversation over a fake device. With a `folder` it is recorded there."""

    def __init__(
        self,
        folder: Path | None,
        utterances: Sequence[Utterance],
        replies: Sequence[str],
        settings: Settings | None = None,
        *,
        lost_at_s: Sequence[float] = (),
        write: Write = write_whole,
        observe: Callable[["Recorded"], None] = lambda _: None,
    ) -> None:
        self.events: list[Event | DeviceLost | DeviceBack] = []
        self.told: list[str] = []
        self._also = observe
        settings, clock = settings or load(), VirtualClock()
        engines = fake_engines(clock, replies)
        self._device = FakeDevice(scenario(utterances), clock, engines.tts.sample_rate, lost_at_s)
        recorder = folder and ScenarioRecorder(
            folder, settings, clock, write=write, tell=self.told.append, command="turnscope talk"
        )
        self.talk = Talk(self._device, engines, settings, clock, self._observe, scenario=recorder)

        async def main() -> None:
            try:
                await self.talk.run()
            finally:
                await engines.workers.close()

        run_virtually(clock, main())

    @property
    def ended(self) -> list[TurnEnded]:
        return [event for event in self.events if isinstance(event, TurnEnded)]

    def _observe(self, event: Event | DeviceLost | DeviceBack) -> None:
        self.events.append(event)
        if not isinstance(event, DeviceLost | DeviceBack):
            self._device.observe(event)
        self._also(self)
