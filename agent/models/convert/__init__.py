"""Converters: from the files of a source to the files that an engine opens.

Each is a module here with `convert(source: Path, target: Path, report: Report)`, which reads the folder `source`,
writes into the existing folder `target`, and calls `report(done, total, text)` before each of its steps. They run in a
child process (`python -m agent.models.convert NAME SOURCE TARGET`), so that their memory goes back to the system and
what their libraries print never reaches the terminal.
"""

from collections.abc import Callable

Report = Callable[[int, int, str], None]

CONVERTER_VERSIONS = {"moonshine": 2, "piper": 2, "gguf_q8_0": 1}
"""Raised whenever a converter's output changes, so that folders made by the older one are made anew."""

CONVERTER_NEEDS = {
    "moonshine": ("onnx", "onnxruntime"),
    "piper": ("onnx", "onnxruntime"),
    "gguf_q8_0": ("llama_cpp",),
}
"""The modules that a converter imports; all of them come with the extra `cpu`."""
