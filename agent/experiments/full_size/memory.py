"""Memory given back to the system between engines."""

import ctypes
import gc
import sys
from contextlib import suppress


def give_back() -> None:
    """What is no longer referred to; what the C library keeps of it, which is gigabytes after a model was loaded; and
    what PyTorch keeps on a GPU."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
    with suppress(OSError, AttributeError):  # GNU's has this function
        ctypes.CDLL(None).malloc_trim(0)
