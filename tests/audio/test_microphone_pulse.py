"""The microphone edge on a real sound server: PulseAudio with a loudspeaker and a microphone in software."""

import json
import subprocess
import sys
from typing import Any

import numpy as np


def run(name: str) -> dict[str, Any]:
    """In a process of its own, whose PortAudio sees this sound server and no other."""
    command = [sys.executable, "-m", "tests.fakes.microphone_runs", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "what C libraries print reaches the terminal"
    return json.loads(done.stdout)


def test_devices_are_listed_by_name_and_gone_with_the_server() -> None:
    listed = run("listed")
    assert {"laptop_speaker", "usb_mic", "default"} <= set(listed["before"])
    assert listed["after"] == []


def test_a_click_is_captured_when_the_loudspeakers_clock_says_that_it_left() -> None:
    measured = run("clicks")
    assert 4 <= len(measured["off_s"]) <= 6
    assert abs(np.median(measured["off_s"])) < 0.010
    assert min(measured["late_s"]) > -0.030  # this microphone's server gives its sound a little ahead of its time


def test_speech_comes_in_and_goes_out() -> None:
    measured = run("both_ways")
    assert measured["devices"] == ["default", "default"]
    assert measured["microphone"] > 0.9 and measured["loudspeaker"] > 0.9


def test_a_server_that_is_killed_ends_the_packets_and_is_found_again() -> None:
    measured = run("unplugged")
    assert measured["gone_s"] < 2.0
    assert "No sound runs any more through" in measured["said"]
    assert measured["back_s"] > 1.0
    assert abs(measured["numbers_keep_to_time_s"]) < 0.020


def test_a_loudspeaker_that_stops_without_a_word_is_noticed() -> None:
    measured = run("suspended")
    assert measured["gone_s"] < 2.0
    assert "laptop_speaker" in measured["said"] and "usb_mic" not in measured["said"]


def test_the_agent_does_not_hear_itself_unless_told_that_it_cannot() -> None:
    shares = run("echo")
    assert shares["headset"] > 0.3
    assert shares["cancelled"] < 0.1  # none at all, but where a busy machine lets the loudspeaker run dry
