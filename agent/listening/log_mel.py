"""Log-mel features as Whisper defines them (Radford et al. 2022, arXiv 2212.04356): what smart-turn listens to.

80 mel bands (Slaney's scale and area normalisation) of a power spectrum over 400 samples with a periodic Hann window
every 160 samples, log10, limited to 8 decades below the loudest, scaled to about -1 to 1.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from agent.audio.sample_clock import CAPTURE_RATE_HZ

WINDOW_SAMPLES = 400
HOP_SAMPLES = 160
BANDS = 80
_FLOOR = 1e-10
_VARIANCE_FLOOR = 1e-7


def log_mel(samples: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    """Features float32 (80, length // 160) of the last `length` samples (16 kHz mono), preceded by silence where
    there are fewer.

    The wave, silence included, is first brought to zero mean and unit variance.
    """
    heard = samples[-length:]
    missing = length - len(heard)
    wave = _normalised(np.concatenate([np.zeros(missing, np.float32), heard]))
    half = WINDOW_SAMPLES // 2
    frames = sliding_window_view(np.pad(wave, half, mode="reflect"), WINDOW_SAMPLES)[:-1:HOP_SAMPLES]
    silent = max(0, (missing - half) // HOP_SAMPLES)  # frames before this one lie in the silence and equal it
    spectrum = np.abs(np.fft.rfft(frames[silent:] * _WINDOW, axis=1)) ** 2
    decades = np.log10(np.maximum(spectrum @ _FILTERS, _FLOOR)).T
    decades = np.concatenate([np.repeat(decades[:, :1], silent, axis=1), decades], axis=1)
    return ((np.maximum(decades, decades.max() - 8) + 4) / 4).astype(np.float32)


def _normalised(wave: NDArray[np.float32]) -> NDArray[np.float32]:
    return (wave - wave.mean()) / np.sqrt(wave.var() + _VARIANCE_FLOOR)


def mel_of_hz(hz: NDArray[np.float64]) -> NDArray[np.float64]:
    """Slaney's mel scale: linear up to 1 kHz (15 mel), then 27 mel for each factor of 6.4."""
    return np.where(hz < 1000, hz * 3 / 200, 15 + 27 * np.log(np.maximum(hz, 1000) / 1000) / np.log(6.4))


def hz_of_mel(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp(np.log(6.4) * (np.maximum(mel, 15) - 15) / 27))


def _filters() -> NDArray[np.float64]:
    """Triangles of unit area over the mel scale, (frequency bins, bands)."""
    top = mel_of_hz(np.array(CAPTURE_RATE_HZ / 2))
    edges = hz_of_mel(np.linspace(0, float(top), BANDS + 2))
    bins = np.linspace(0, CAPTURE_RATE_HZ / 2, WINDOW_SAMPLES // 2 + 1)[:, None]
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins - low) / (centre - low), (high - bins) / (high - centre)
    return np.maximum(0, np.minimum(rising, falling)) * 2 / (high - low)


_WINDOW = np.hanning(WINDOW_SAMPLES + 1)[:-1]
_FILTERS = _filters()
