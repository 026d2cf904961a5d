"""The loaded models of a pipeline and the workers that own them."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agent.apology import Apology
from agent.asr.protocol import AsrEngine
from agent.listening.vad import VadFrame
from agent.llm.protocol import LlmEngine
from agent.tts.protocol import TtsEngine
from agent.worker import Worker


class VadStream(Protocol):
    """Voice activity of one audio stream, frame by frame; called on the event loop, since a frame costs 0.1 ms."""

    def push(self, samples: NDArray[np.float32]) -> list[VadFrame]:
        """Take the next samples (16 kHz mono float32, any length) and return the frames that they complete."""
        ...

    def reset(self, start_sample: int = 0) -> None:
        """Forget what was heard; the next sample is number `start_sample`."""
        ...


class Vad(Protocol):
    """A voice detector, loaded; the state is its streams'."""

    def open(self, start_sample: int = 0) -> VadStream:
        """A stream whose first sample is number `start_sample`. Computes nothing."""
        ...


class SmartTurn(Protocol):
    """Whether an utterance sounds finished, from its audio."""

    def probability(self, samples: NDArray[np.float32]) -> float: ...


@dataclass(frozen=True)
class Workers:
    """One worker per engine."""

    asr: Worker
    smart_turn: Worker
    llm: Worker
    tts: Worker

    async def close(self) -> None:
        await asyncio.gather(self.asr.close(), self.smart_turn.close(), self.llm.close(), self.tts.close())


@dataclass(frozen=True)
class Engines:
    """`apology` is what the user hears when one of them fails; None: nothing."""

    vad: Vad
    smart_turn: SmartTurn | None
    asr: AsrEngine
    llm: LlmEngine
    tts: TtsEngine
    workers: Workers
    apology: Apology | None = None
