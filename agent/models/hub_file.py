"""Model files out of a Hugging Face repository: plain HTTP with Range requests, so that a long download resumes."""

import http.client
import os
import ssl
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from agent.errors import TurnscopeError
from agent.models.manifest import HubSource, Model, SourceFile
from agent.models.verified import BLOCK_BYTES, OnProgress, verify

_PUBLIC_ENDPOINT = "https://huggingface.co"
_TIMEOUT_S = 30
_BROKEN = (URLError, ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException)


def fetch_from_hub(model: Model, source: HubSource, folder: Path, on_progress: OnProgress) -> None:
    """Put the files of `model` into `folder`, each verified; what an earlier call left there is resumed.

    The endpoint is $HF_ENDPOINT or the public one; $HF_TOKEN, where set, is sent to it and to nobody else.
    Raises TurnscopeError.
    """
    total_bytes = sum(file.size_bytes for file in model.files)
    earlier_bytes = 0
    for file in model.files:
        target = folder / file.name
        if not target.exists():
            partial = target.with_name(f"{file.name}.partial")
            _complete(source, file, partial, lambda size, before=earlier_bytes: on_progress(before + size, total_bytes))
            verify(model, file, partial)
            partial.rename(target)
        earlier_bytes += file.size_bytes


def _complete(source: HubSource, file: SourceFile, partial: Path, on_size: Callable[[int], None]) -> None:
    """Append to `partial` until it has the size of `file`, over as many requests as it takes while each brings more."""
    while (size_before := _size(partial)) < file.size_bytes:
        problem = "the connection ended early"
        try:
            with _open(source, file, size_before) as response:
                _append(response, partial, file.size_bytes, on_size)
        except HTTPError as error:
            if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                return  # what the server has is shorter than what is needed, so verification will refuse it
            problem = f"the server says {error.code} {error.reason}"
            if error.code in (401, 403):
                problem += ", so it wants an access token in HF_TOKEN or its licence accepted on its page"
        except _BROKEN as error:
            problem = str(getattr(error, "reason", error)) or type(error).__name__
        if _size(partial) <= size_before:
            raise TurnscopeError(
                f"{file.path} of {source} could not be downloaded: {problem}; "
                f"the {size_before} bytes that arrived are kept: run the same fetch again to go on."
            )


def _open(source: HubSource, file: SourceFile, offset_bytes: int) -> HTTPResponse:
    endpoint = os.environ.get("HF_ENDPOINT", _PUBLIC_ENDPOINT).rstrip("/")
    request = Request(f"{endpoint}/{source.repository}/resolve/{source.revision}/{quote(file.path)}")
    if offset_bytes:
        request.add_header("Range", f"bytes={offset_bytes}-")
    if token := os.environ.get("HF_TOKEN"):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    return urlopen(request, timeout=_TIMEOUT_S)


def _append(response: HTTPResponse, partial: Path, size_bytes: int, on_size: Callable[[int], None]) -> None:
    """Write the response after what `partial` holds, or in its place when the server sends the file from its start."""
    with partial.open("ab" if response.status == http.client.PARTIAL_CONTENT else "wb") as file:
        while file.tell() <= size_bytes and (block := response.read(BLOCK_BYTES)):
            file.write(block)
            on_size(file.tell())


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
