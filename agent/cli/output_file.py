"""A file that a command writes at its end, looked at before minutes are spent."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.errors import TurnscopeError


@dataclass(frozen=True)
class OutputFile:
    """`advice` says what to do where the file cannot be written. Both methods raise TurnscopeError then."""

    path: Path
    advice: str

    def require_writable(self) -> None:
        absent = not self.path.exists()
        with self._explained():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.open("a").close()
            if absent:
                self.path.unlink()

    def write(self, text: str) -> None:
        with self._explained():
            self.path.write_text(text, encoding="utf-8")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TurnscopeError(f"{self.path} cannot be written ({error.strerror or error}): {self.advice}.") from None
