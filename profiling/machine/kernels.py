"""Which code a ceiling was measured with: library, version, and the instructions that it uses or could use."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from profiling.calibration import CPU
from profiling.machine import openblas

ROOT = Path("/")
_ONEDNN = {"bfloat16": "bf16", "float16": "fp16"}
_OF_INTEREST = (
    *("avx2", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8"),
    *("asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2"),
)


def instruction_sets(root: Path = ROOT) -> tuple[str, ...]:
    """Those of the processor's that matter for matrix products; none where the system does not tell."""
    with suppress(OSError):
        for line in (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, flags = line.partition(":")
            if key.strip() in ("flags", "Features"):
                return tuple(name for name in _OF_INTEREST if name in flags.split())
    return ()


def numpy_kernel() -> str:
    """Like `numpy 2.4.6, OpenBLAS 0.3.31 (Haswell kernels)`; what numpy was built with where it is no OpenBLAS."""
    if blas := openblas.find():
        return f"numpy {np.__version__}, OpenBLAS {blas.version} ({blas.core} kernels)"
    built: dict[str, Any] = dict(np.show_config(mode="dicts") or {})
    library = built.get("Build Dependencies", {}).get("blas", {})
    name, version = library.get("name") or "its own loops", library.get("version") or ""
    return f"numpy {np.__version__}, {name} {version}".strip()


def torch_kernel(dtype: str, device: str) -> str:
    """Like `PyTorch 2.13.0, MKL (AVX2)`: the library that PyTorch hands a matrix product of this type to."""
    import torch

    version = f"PyTorch {torch.__version__}"
    if device != CPU:
        major, minor = torch.cuda.get_device_capability(device)
        tf32 = ", TF32" if dtype == "float32" and torch.backends.cuda.matmul.allow_tf32 else ""
        return f"{version}, cuBLAS for CUDA {torch.version.cuda} (compute {major}.{minor}{tf32})"
    return f"{version}, {_torch_library(dtype)} ({torch.backends.cpu.get_cpu_capability()})"


def _torch_library(dtype: str) -> str:
    import torch

    if dtype == "float32":
        return "MKL" if torch.backends.mkl.is_available() else "its own BLAS"
    serves: Any = getattr(torch.ops.mkldnn, f"_is_mkldnn_{_ONEDNN[dtype]}_supported", None)
    return "oneDNN" if torch.backends.mkldnn.is_available() and serves is not None and serves() else "its own loops"
