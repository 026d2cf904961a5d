"""Which build of PyTorch .venv has, and torchaudio's libraries, which load only beside one with CUDA."""

import runpy
from pathlib import Path


def has_cuda(site_packages: Path) -> bool:
    """Whether the installed PyTorch was built for CUDA. Reads its version file; importing it would take seconds."""
    return runpy.run_path(str(site_packages / "torch" / "version.py"))["cuda"] is not None


def fit_torchaudio(site_packages: Path) -> None:
    """Remove torchaudio's compiled libraries beside a PyTorch without CUDA.

    They are built for CUDA and would fail to load, at torchaudio's import. Without them it is pure Python, and does
    all that the engines ask of it.
    """
    if not has_cuda(site_packages):
        for library in (site_packages / "torchaudio" / "lib").glob("*.so"):
            library.unlink()
