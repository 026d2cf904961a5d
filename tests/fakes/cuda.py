"""A CUDA device that a test drives: what PyTorch's events see of it."""

import pytest
import torch


class FakeDevice:
    """Works through what the host asks of it, later than the host asks. `ms` is when it gets to what is asked next."""

    def __init__(self) -> None:
        self.ms = 0.0
        self.waits = 0
        self.name = ""

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "FakeDevice":
        """In the place of whatever device the current stream is asked of."""

        def current_stream(device: torch.device) -> FakeDevice:
            self.name = str(device)
            return self

        monkeypatch.setattr(torch.cuda, "Event", _Event)
        monkeypatch.setattr(torch.cuda, "current_stream", current_stream)
        return self


class _Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: FakeDevice) -> None:
        self.device, self.ms = stream, stream.ms

    def synchronize(self) -> None:
        self.device.waits += 1

    def elapsed_time(self, end: "_Event") -> float:
        return end.ms - self.ms
