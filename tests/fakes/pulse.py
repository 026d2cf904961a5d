"""A sound card in software: a PulseAudio server of one's own, with a loudspeaker and a microphone that can be played
into. It touches no configuration of the machine and ends with its `with` block."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

STARTS_S = 10.0
ASOUND = """</usr/share/alsa/alsa.conf>
pcm.!default { type pulse }
ctl.!default { type pulse }
pcm.laptop_speaker { type pulse device speaker }
pcm.usb_mic { type pulse device mic.monitor }
pcm.into_mic { type pulse device mic }
"""


class PulseServer:
    """PortAudio lists the devices "laptop_speaker", "usb_mic" and "into_mic", which plays into the microphone itself.
    `environment` is what a process needs to see them and no others."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pulse-"))
        (self._folder / "asound.conf").write_text(ASOUND)
        for name in ("pulse", "state"):
            (self._folder / name).mkdir()
        self._socket = self._folder / "pulse" / "native"
        self.environment = os.environ | {
            "XDG_RUNTIME_DIR": str(self._folder),
            "PULSE_RUNTIME_PATH": str(self._folder / "pulse"),
            "PULSE_STATE_PATH": str(self._folder / "state"),
            "PULSE_COOKIE": str(self._folder / "cookie"),
            "PULSE_SERVER": f"unix:{self._socket}",
            "ALSA_CONFIG_PATH": str(self._folder / "asound.conf"),
        }
        self._server: subprocess.Popen[bytes] | None = None
        self._others: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._socket.unlink(missing_ok=True)
        modules = (
            f"module-native-protocol-unix socket={self._socket} auth-anonymous=1",
            "module-null-sink sink_name=speaker rate=48000 norewinds=1",  # with rewinds its first block lasts 2 s
            "module-null-sink sink_name=mic rate=48000 channels=1 norewinds=1",
        )
        loaded = [word for module in modules for word in ("-L", module)]
        options = ("-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no")
        log = f"--log-target=file:{self._folder / 'log'}"
        self._server = subprocess.Popen(["pulseaudio", *options, log, *loaded], env=self.environment)
        deadline = time.monotonic() + STARTS_S
        while self._pactl("info").returncode:
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PulseAudio does not start: {(self._folder / 'log').read_text()}")
            time.sleep(0.02)
        self.control("set-default-sink", "speaker")
        self.control("set-default-source", "mic.monitor")

    def kill(self) -> None:
        """As when the devices are unplugged."""
        if self._server is not None:
            self._server.send_signal(signal.SIGKILL)
            self._server.wait()

    def control(self, *words: str) -> None:
        """`pactl` with these words."""
        self._pactl(*words).check_returncode()

    def loop_back(self) -> None:
        """What the loudspeaker plays reaches the microphone, as in a room."""
        self.control("load-module", "module-loopback", "source=speaker.monitor", "sink=mic", "latency_msec=20")

    def play(self, wav: Path, sink: str = "mic") -> None:
        """Begin to play a file."""
        self._others.append(subprocess.Popen(["paplay", f"--device={sink}", str(wav)], env=self.environment))

    def record(self, to: Path, rate_hz: int, source: str = "speaker.monitor") -> subprocess.Popen[bytes]:
        """Record float32 mono without a header until the process is ended."""
        options = ("--raw", "--format=float32le", "--channels=1", f"--rate={rate_hz}", f"--device={source}")
        recorder = subprocess.Popen(["parecord", *options, "--latency-msec=20", str(to)], env=self.environment)
        self._others.append(recorder)
        return recorder

    def __enter__(self) -> "PulseServer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._others:
            process.terminate()
            process.wait()
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _pactl(self, *words: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(["pactl", *words], env=self.environment, capture_output=True)
