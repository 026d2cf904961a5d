"""The sound devices of this machine: listed, chosen by name or number, and what to say when there is none."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from agent.errors import TurnscopeError

Kind = Literal["input", "output"]
PREFERRED_RATE_HZ = 48_000
_ROLE = {"input": "microphone", "output": "loudspeaker"}


@dataclass(frozen=True)
class SoundDevice:
    """A device as PortAudio lists it. `inputs` and `outputs` are the most channels it takes in and gives out;
    `default_rate_hz` is the rate at which it runs by itself. `is_default` holds the roles in which it is the
    system's default."""

    number: int
    name: str
    host_api: str
    inputs: int
    outputs: int
    default_rate_hz: int
    is_default: frozenset[Kind] = frozenset()

    def channels(self, kind: Kind) -> int:
        return self.inputs if kind == "input" else self.outputs

    @property
    def full_name(self) -> str:
        return f"{self.name}, {self.host_api}"


@dataclass(frozen=True)
class Format:
    """What a device is opened with."""

    rate_hz: int
    channels: int


def library() -> Any:
    """The module `sounddevice`, with PortAudio running. Raises TurnscopeError when there is none, or it does not
    start."""
    try:
        return import_module("sounddevice")
    except ImportError:
        raise TurnscopeError("The Python package sounddevice is missing: run `pip install sounddevice`.") from None
    except OSError:
        raise TurnscopeError(
            "PortAudio, the library that reaches sound devices, is not installed: on Debian and Ubuntu install the "
            "package libportaudio2."
        ) from None
    except Exception as error:  # sounddevice's own class cannot be named before it is imported
        raise _does_not_start(error) from None


def refresh() -> None:
    """Look at the devices anew, so that those plugged in since are seen; no stream may be open. Raises TurnscopeError
    when PortAudio does not start."""
    sounddevice = library()
    try:
        while sounddevice._initialized:
            sounddevice._terminate()
        sounddevice._initialize()
    except sounddevice.PortAudioError as error:
        raise _does_not_start(error) from None


def table() -> list[SoundDevice]:
    """All devices, in the order of their numbers; empty when there are none. Raises TurnscopeError as `library`
    does."""
    sounddevice = library()
    try:
        apis = sounddevice.query_hostapis()
        defaults = sounddevice.default.device
        devices = [(number, info) for number, info in enumerate(sounddevice.query_devices())]
    except sounddevice.PortAudioError as error:
        raise _does_not_start(error) from None
    chosen: dict[Kind, int] = {
        "input": _first([defaults[0], *(api["default_input_device"] for api in apis)]),
        "output": _first([defaults[1], *(api["default_output_device"] for api in apis)]),
    }
    return [
        SoundDevice(
            number,
            info["name"],
            apis[info["hostapi"]]["name"],
            info["max_input_channels"],
            info["max_output_channels"],
            round(info["default_samplerate"]),
            frozenset(kind for kind, default in chosen.items() if default == number),
        )
        for number, info in devices
    ]


def choose(devices: Sequence[SoundDevice], kind: Kind, wanted: str | None = None) -> SoundDevice:
    """The device for this role: by its number, its name, or a part of "name, host API" that only one has (upper and
    lower case alike); without `wanted`, the system's default, or else the first. Raises TurnscopeError when there is
    none, or not one."""
    able = [device for device in devices if device.channels(kind)]
    role = _ROLE[kind]
    if not able:
        raise TurnscopeError(f"No {role} was found: plug one in, or start the sound server of this machine.")
    if wanted is None:
        return next((device for device in able if kind in device.is_default), able[0])
    text = wanted.strip().lower()
    if text.isdigit():
        found = [device for device in able if device.number == int(text)]
    else:
        found = [device for device in able if text in (device.name.lower(), device.full_name.lower())]
        found = found or [device for device in able if text and text in device.full_name.lower()]
    if len(found) > 1:
        found = [device for device in found if kind in device.is_default] or found
    if len(found) == 1:
        return found[0]
    listed = "; ".join(f"{device.number} {device.full_name}" for device in found or able)
    if found:
        raise TurnscopeError(f"{wanted!r} fits more than one {role}: give the number of one of these: {listed}.")
    raise TurnscopeError(f"There is no {role} {wanted!r}: choose one of these by name or number: {listed}.")


def format_of(device: SoundDevice, kind: Kind) -> Format:
    """The rate and the channels to open it with: 48 kHz if it has that, else its own rate; one channel in, two out, as
    near as it has them. Raises TurnscopeError when it takes none."""
    sounddevice = library()
    check = sounddevice.check_input_settings if kind == "input" else sounddevice.check_output_settings
    most = device.channels(kind)
    wished = (1, 2, most) if kind == "input" else (2, 1, most)
    reason: Exception | None = None
    for rate_hz in dict.fromkeys((PREFERRED_RATE_HZ, device.default_rate_hz)):
        for channels in dict.fromkeys(count for count in wished if count <= most):
            try:
                check(device=device.number, channels=channels, dtype="float32", samplerate=rate_hz)
                return Format(rate_hz, channels)
            except (sounddevice.PortAudioError, ValueError) as error:
                reason = error
    raise cannot_open(device, kind, reason)


def cannot_open(device: SoundDevice, kind: Kind, reason: Exception | None) -> TurnscopeError:
    """What to say of a device that is listed and cannot be used."""
    return TurnscopeError(
        f"The {_ROLE[kind]} {device.name!r} cannot be opened ({_words(reason)}): plug it in, close what else "
        "uses it, or choose another."
    )


def _first(numbers: Sequence[int]) -> int:
    """The first that is a device's."""
    return next((number for number in numbers if number >= 0), -1)


def _does_not_start(error: Exception) -> TurnscopeError:
    return TurnscopeError(
        f"The sound system does not start ({_words(error)}): mend the configuration of ALSA, in ~/.asoundrc or "
        "/etc/asound.conf."
    )


def _words(error: Exception | None) -> str:
    """The library's message on one line, without the numbers that follow it."""
    text = str(error.args[0] if error and error.args else "no reason given")
    return " ".join(text.split()).split(" [PaErrorCode")[0].rstrip(".")
