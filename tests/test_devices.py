"""Whether PyTorch can use a CUDA device: told by how it was built, whatever its version is called."""

from pathlib import Path

import pytest

from agent import devices


@pytest.mark.parametrize(
    ("version", "cuda", "built"), [("2.13.0", "None", False), ("2.13.0+cpu", "None", False), ("2.13.0", "'13.0'", True)]
)
def test_the_build_tells_and_not_the_versions_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, cuda: str, built: bool
) -> None:
    (tmp_path / "version.py").write_text(
        f"from typing import Optional\n__version__ = {version!r}\ncuda: Optional[str] = {cuda}\n"
    )
    monkeypatch.setattr(devices, "_torch_folder", lambda: tmp_path)
    monkeypatch.setattr(devices, "cuda_devices", lambda: 1)
    assert devices.is_cuda_build(tmp_path) is devices.torch_knows_cuda() is built
    assert devices.resolve("auto") == ("cuda" if built else "cpu")


def test_no_pytorch_is_none_for_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not devices.is_cuda_build(tmp_path)
    monkeypatch.setattr(devices, "_torch_folder", lambda: None)
    assert not devices.torch_knows_cuda()


def test_the_installed_pytorch_is_found_without_importing_it() -> None:
    import torch

    assert devices._torch_folder() == Path(torch.__file__).parent
    assert devices.torch_knows_cuda() is (torch.version.cuda is not None)
