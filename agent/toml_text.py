"""Values as TOML 1.0 text; `tomllib` reads them back."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml(table: Mapping[str, Any]) -> str:
    """A document: strings, booleans, numbers, sequences of these, tables within tables and sequences of tables. A value
    of None, which TOML does not know, is left out. Raises TypeError for anything else."""
    return "".join(_lines(table, ())).removeprefix("\n")


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    """A table's own values go before the tables in it."""
    own = {key: value for key, value in table.items() if value is not None and not _is_table(value)}
    lines = [f"{_key(key)} = {_value(value)}\n" for key, value in own.items()]
    for key, value in table.items():
        name = ".".join(map(_key, (*path, key)))
        if isinstance(value, Mapping):
            lines += [f"\n[{name}]\n", *_lines(value, (*path, key))]
        elif _is_table(value):
            for one in value:
                lines += [f"\n[[{name}]]\n", *_lines(one, (*path, key))]
    return lines


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (_is_sequence(value) and bool(value) and isinstance(value[0], Mapping))


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quoted(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return repr(float(value)) if math.isfinite(value) else str(float(value))
        case str():
            return _quoted(value)
        case _ if _is_sequence(value):
            return f"[{', '.join(map(_value, value))}]"
        case _:
            raise TypeError(f"TOML has no value for {type(value).__name__}")


def _quoted(text: str) -> str:
    """JSON's escapes are TOML's, which asks for one more: DEL. Half a surrogate pair becomes a question mark."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
