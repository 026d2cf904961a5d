"""The language model, what it is told, and what it remembers.

llama.cpp's threads meet after every node of its graph, in OpenMP barriers that spin by default. Where another process
or thread is busy too, spinning takes the core from the thread that is waited for: one token then costs seconds
instead of milliseconds. Waiting passively has to be asked for before the library is loaded.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
