"""The builds of PyTorch and torchaudio in .venv: whether they serve this machine, and one another."""

from pathlib import Path

from agent.devices import is_cuda_build


def has_cuda(site_packages: Path) -> bool:
    """Whether a PyTorch that was built for CUDA is installed."""
    return is_cuda_build(site_packages / "torch")


def is_for_cpu(site_packages: Path) -> bool:
    """Whether a PyTorch is installed that was not built for CUDA."""
    return (site_packages / "torch").is_dir() and not has_cuda(site_packages)


def fit_torchaudio(site_packages: Path) -> None:
    """Remove torchaudio's compiled libraries beside a PyTorch without CUDA.

    They are built for CUDA and would fail to load, at torchaudio's import. Without them it is pure Python, and does
    all that the engines ask of it.
    """
    if not has_cuda(site_packages):
        for library in (site_packages / "torchaudio" / "lib").glob("*.so"):
            library.unlink()
