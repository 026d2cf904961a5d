"""Sound in, sound out: the voice agent."""

import os

# ONNX Runtime reads this when it is first imported: no device id, no database in the user's cache, nothing sent.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
