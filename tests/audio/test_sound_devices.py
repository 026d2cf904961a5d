"""Devices listed and chosen, and one sentence for each thing that may be missing."""

import sys
from types import SimpleNamespace

import pytest

from agent.audio import sound_devices
from agent.audio.sound_devices import Format, choose, format_of, table
from agent.errors import TurnscopeError
from tests.fakes.sound_card import PortAudioError, SoundCard, insert

LAPTOP = (
    ("Built-in Microphone", 2, 0, (44_100,)),
    ("Built-in Speaker", 0, 2, (48_000,)),
    ("USB Headset", 1, 2, (16_000, 48_000)),
    ("USB Camera", 1, 0, (48_000,)),
)


@pytest.fixture
def laptop(monkeypatch: pytest.MonkeyPatch) -> SoundCard:
    card = SoundCard(*LAPTOP)
    card.default.device = [2, 1]
    insert(monkeypatch, card)
    return card


def sentence(error: pytest.ExceptionInfo[TurnscopeError]) -> str:
    text = str(error.value)
    assert error.value.exit_code == 2 and "\n" not in text and text.endswith(".") and "PaErrorCode" not in text
    return text


def test_the_table_says_what_each_device_can_do(laptop: SoundCard) -> None:
    devices = table()
    assert [(device.number, device.name, device.inputs, device.outputs) for device in devices] == [
        (number, name, inputs, outputs) for number, (name, inputs, outputs, _) in enumerate(LAPTOP)
    ]
    assert devices[0].default_rate_hz == 44_100 and devices[0].host_api == "ALSA"
    assert [device.is_default for device in devices] == [set(), {"output"}, {"input"}, set()]


def test_without_defaults_of_its_own_the_host_api_says_them(laptop: SoundCard) -> None:
    laptop.default.device = [-1, -1]
    laptop.apis[0] |= {"default_input_device": 3, "default_output_device": 2}
    assert choose(table(), "input").name == "USB Camera"
    assert choose(table(), "output").name == "USB Headset"


@pytest.mark.parametrize(
    ("wanted", "kind", "name"),
    [
        (None, "input", "USB Headset"),
        (None, "output", "Built-in Speaker"),
        ("camera", "input", "USB Camera"),
        ("3", "input", "USB Camera"),
        (" usb headset ", "output", "USB Headset"),
        ("usb headset, alsa", "input", "USB Headset"),
        ("usb", "output", "USB Headset"),  # the camera gives no sound out
        ("usb", "input", "USB Headset"),  # of two the system's default
    ],
)
def test_a_device_is_chosen_by_name_or_number(
    laptop: SoundCard, wanted: str, kind: sound_devices.Kind, name: str
) -> None:
    assert choose(table(), kind, wanted).name == name


def test_a_name_in_full_is_chosen_though_others_begin_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    insert(monkeypatch, SoundCard(("Mic 2", 1, 0, (48_000,)), ("Mic", 1, 0, (48_000,))))
    assert choose(table(), "input", "mic").number == 1


@pytest.mark.parametrize("wanted", ["radio", "1", "9", ""])
def test_what_there_is_is_listed_when_nothing_fits(laptop: SoundCard, wanted: str) -> None:
    with pytest.raises(TurnscopeError) as error:
        choose(table(), "input", wanted)
    said = sentence(error)
    assert repr(wanted) in said and "0 Built-in Microphone, ALSA; 2 USB Headset, ALSA; 3 USB Camera, ALSA" in said
    assert "Speaker" not in said


def test_a_name_that_fits_two_is_refused_with_their_numbers(laptop: SoundCard) -> None:
    laptop.default.device = [0, 1]
    with pytest.raises(TurnscopeError) as error:
        choose(table(), "input", "usb")
    assert "more than one" in sentence(error) and "2 USB Headset, ALSA; 3 USB Camera, ALSA" in str(error.value)


@pytest.mark.parametrize(("kind", "role"), [("input", "microphone"), ("output", "loudspeaker")])
def test_no_device_is_one_sentence(monkeypatch: pytest.MonkeyPatch, kind: sound_devices.Kind, role: str) -> None:
    insert(monkeypatch, SoundCard())
    assert table() == []
    with pytest.raises(TurnscopeError) as error:
        choose(table(), kind)
    assert f"No {role}" in sentence(error)


def test_a_missing_portaudio_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_import(monkeypatch, OSError("PortAudio library not found"))
    with pytest.raises(TurnscopeError) as error:
        table()
    assert "libportaudio2" in sentence(error)


def test_a_broken_alsa_configuration_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "Error initializing PortAudio: Unanticipated host error [PaErrorCode -9999]: 'ALSA' [ALSA error -22]"
    fail_to_import(monkeypatch, PortAudioError(reason))
    with pytest.raises(TurnscopeError) as error:
        table()
    assert "Unanticipated host error" in sentence(error) and "asoundrc" in str(error.value)


def test_a_missing_sounddevice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(TurnscopeError) as error:
        table()
    assert "pip install sounddevice" in sentence(error)


def test_devices_plugged_in_later_are_seen_after_a_refresh(laptop: SoundCard) -> None:
    laptop.plugged_in.append(("Studio", 8, 8, (96_000,)))
    assert len(table()) == 4
    sound_devices.refresh()
    assert table()[-1].name == "Studio"


def test_a_sound_system_that_does_not_start_again_may_start_later(laptop: SoundCard) -> None:
    laptop.broken_start = True
    for _ in range(2):
        with pytest.raises(TurnscopeError) as error:
            sound_devices.refresh()
        sentence(error)
        with pytest.raises(TurnscopeError):
            table()
    laptop.broken_start = False
    sound_devices.refresh()
    assert len(table()) == 4


def test_48_khz_and_few_channels_are_preferred_else_what_the_device_has(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = (44_100,)
    insert(
        monkeypatch,
        SoundCard(*LAPTOP, ("hw stereo", 2, 2, rates), ("hw many", 6, 8, rates), ("hw mono", 1, 1, (8_000, 48_000))),
    )
    devices = table()
    assert format_of(devices[0], "input") == Format(44_100, 1)
    assert format_of(devices[2], "input") == Format(48_000, 1)
    assert format_of(devices[2], "output") == Format(48_000, 2)
    assert format_of(devices[4], "input") == Format(44_100, 2)
    assert format_of(devices[5], "output") == Format(44_100, 8)
    assert format_of(devices[6], "output") == Format(48_000, 1)


def test_a_device_that_takes_no_format_is_one_sentence(laptop: SoundCard, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise PortAudioError("Device unavailable [PaErrorCode -9985]")

    monkeypatch.setattr(laptop, "check_input_settings", refuse)
    with pytest.raises(TurnscopeError) as error:
        format_of(table()[0], "input")
    assert "'Built-in Microphone' cannot be opened (Device unavailable)" in sentence(error)


def fail_to_import(monkeypatch: pytest.MonkeyPatch, reason: Exception) -> None:
    def refuse(name: str) -> SimpleNamespace:
        assert name == "sounddevice"
        raise reason

    monkeypatch.setattr(sound_devices, "import_module", refuse)
