"""A stand-in for the module `sounddevice`: devices that a test describes, and streams that run in real time."""

import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

BLOCK_S = 0.01
EPOCH_S = 1_700_000_000.0  # the host's clock is not the monotonic one


class PortAudioError(Exception):
    pass


class SoundCard:
    """`devices`: name, channels in, channels out, rates. `plugged_in` are seen only once PortAudio starts anew.
    `microphone(frame, frames)` gives what is captured, (frames, channels); `heard` is what was played."""

    PortAudioError = PortAudioError

    def __init__(self, *devices: tuple[str, int, int, tuple[int, ...]]):
        self.plugged_in = [*devices]
        self.default = SimpleNamespace(device=[-1, -1])
        self.apis = [{"name": "ALSA", "default_input_device": -1, "default_output_device": -1}]
        self.microphone: Callable[[int, int], NDArray[np.float32]] | None = None
        self.heard: list[NDArray[np.float32]] = []
        self.streams: list[FakeStream] = []
        self.broken_start = False
        self.busy = False
        self.wakes_after_s = {"input": 0.0, "output": 0.0}
        self._initialized = 0
        self._initialize()

    def _initialize(self) -> None:
        if self.broken_start:
            raise PortAudioError("Error initializing PortAudio: Unanticipated host error [PaErrorCode -9999]")
        self._initialized += 1
        self._devices = [*self.plugged_in]

    def _terminate(self) -> None:
        assert not any(stream.running for stream in self.streams)
        self._initialized -= 1

    def query_hostapis(self) -> list[dict[str, Any]]:
        return self.apis

    def query_devices(self) -> list[dict[str, Any]]:
        if not self._initialized:
            raise PortAudioError("PortAudio not initialized [PaErrorCode -10000]")
        return [
            {
                "name": name,
                "hostapi": number % len(self.apis),
                "max_input_channels": inputs,
                "max_output_channels": outputs,
                "default_samplerate": float(rates[0]),
            }
            for number, (name, inputs, outputs, rates) in enumerate(self._devices)
        ]

    def check_input_settings(self, device: int, channels: int, dtype: str, samplerate: int) -> None:
        name, inputs, outputs, rates = self._devices[device]
        if samplerate not in rates or (channels != max(inputs, outputs) and name.startswith("hw")):
            raise PortAudioError("Invalid sample rate [PaErrorCode -9997]")

    check_output_settings = check_input_settings

    def InputStream(self, **options: Any) -> "FakeStream":
        return self._stream("input", options)

    def OutputStream(self, **options: Any) -> "FakeStream":
        return self._stream("output", options)

    def _stream(self, kind: str, options: dict[str, Any]) -> "FakeStream":
        if self.busy:
            raise PortAudioError("Device unavailable [PaErrorCode -9985]")
        self.streams.append(FakeStream(self, kind, options))
        return self.streams[-1]


class FakeStream:
    """Calls back every 10 ms on a thread of its own."""

    latency = 0.02

    def __init__(self, card: SoundCard, kind: str, options: dict[str, Any]):
        self.kind = kind
        self.options = options
        self.running = self.stalled = False
        self.unplugged = threading.Event()
        self._card = card
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self.running = True
        self._thread.start()

    def abort(self) -> None:
        self.unplugged.set()
        self._thread.join()

    def close(self) -> None:
        pass

    def _run(self) -> None:
        rate_hz, channels = self.options["samplerate"], self.options["channels"]
        frames, frame, start_s = round(rate_hz * BLOCK_S), 0, time.monotonic()
        while not self.unplugged.wait(max(0.0, start_s + (frame + frames) / rate_hz - time.monotonic())):
            now_s, ideal_s = time.monotonic() + EPOCH_S, start_s + frame / rate_hz + EPOCH_S
            info = SimpleNamespace(
                currentTime=now_s, inputBufferAdcTime=ideal_s, outputBufferDacTime=ideal_s + 2 * BLOCK_S
            )
            data = np.zeros((frames, channels), np.float32)
            if self.kind == "input" and self._card.microphone is not None:
                data[:] = self._card.microphone(frame, frames)
            if not self.stalled and frame >= self._card.wakes_after_s[self.kind] * rate_hz:
                self.options["callback"](data, frames, info, 0)
            if self.kind == "output":
                self._card.heard.append(data)
            frame += frames
        self.running = False
        self.options["finished_callback"]()


def insert(monkeypatch: pytest.MonkeyPatch, card: object) -> None:
    """Let `import sounddevice` find the card."""
    monkeypatch.setitem(sys.modules, "sounddevice", card)
