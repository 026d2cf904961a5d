"""python -m agent.setup.check_packages: `pip check`, without the complaints about what is left out on purpose."""

import re
import subprocess
import sys
from collections.abc import Mapping

# What voxcpm's metadata asks for beyond synthesis: its web page, its training, its denoiser and its own recogniser.
NOT_USED: Mapping[str, frozenset[str]] = {
    "voxcpm": frozenset(("addict", "argbind", "funasr", "gradio", "modelscope", "simplejson", "spaces", "torchcodec"))
}
_ABSENT = re.compile(r"(\S+) \S+ requires (\S+), which is not installed\.")


def conflicts(said: str) -> list[str]:
    """Return the lines of `pip check` that are real: all but the absence of what NOT_USED names."""
    return [line for line in said.splitlines() if not _is_meant(line)]


def _is_meant(line: str) -> bool:
    absent = _ABSENT.fullmatch(line.strip())
    return absent is not None and absent[2] in NOT_USED.get(absent[1], ())


if __name__ == "__main__":
    check = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    print(check.stdout, check.stderr, sep="", end="")
    sys.exit(check.returncode != 0 and (not check.stdout or bool(conflicts(check.stdout))))
