"""Quantities as people write them (`905GB/s`, `4.32 GiB`, `31.8TFLOP/s`, `320ms`, `12B`, `80 tokens`) and read them."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_WRITTEN = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)\s*(.*?)\s*", re.IGNORECASE)
_LONGEST_SHOWN = 40
_LEAST, _MOST = 1e-12, 1e21  # in base units: what is beyond is a slip
_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


class QuantityError(ValueError):
    """A sentence: what is wrong with a quantity as it was written, and how to write it."""


@dataclass(frozen=True)
class Dimension:
    """What is measured. `units` are factors to the base unit, those that are shown in `scale`, smallest first.

    `bare` is the factor of a number without a unit, None where one is required. `whole` quantities are counts.
    """

    name: str
    units: Mapping[str, float]
    scale: tuple[str, ...]
    example: str
    bare: float | None = None
    zero: bool = False
    whole: bool = False
    joined: bool = False  # shown without a space: 12B
    others: Mapping[str, float] = field(default_factory=dict[str, float])  # understood too, not named in errors

    def parse(self, text: str) -> float:
        """In the base unit. Raises QuantityError for what is no number, has another unit, or cannot be."""
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise QuantityError(f"{_quoted(text)} is no {self.name}: write a number and a unit, as in {self.example}.")
        value = float(match[1]) * self._factor(match[2], text)
        if not math.isfinite(value) or value < 0 or (value == 0 and not self.zero):
            limit = "zero or more" if self.zero else "more than zero"
            raise QuantityError(f"{_quoted(text)} cannot be a {self.name}: it must be {limit}, as in {self.example}.")
        if value and not _LEAST <= value <= _MOST:
            raise QuantityError(
                f"{_quoted(text)} cannot be a {self.name}: no real one is like that, as {self.example} is."
            )
        if self.whole and not _is_whole(value):
            raise QuantityError(f"{_quoted(text)} cannot be a {self.name}: it must be whole, as in {self.example}.")
        return float(round(value)) if self.whole else value

    def shown(self, value: float) -> str:
        """Three digits in the unit that suits; counts in full."""
        if self.whole:
            return f"{value:,.0f}"
        if value == 0:
            return f"0 {next(unit for unit, factor in self.units.items() if factor == 1)}".rstrip()
        fitting = [unit for unit in self.scale if value >= self.units[unit] * 0.9995]
        unit = fitting[-1] if fitting else self.scale[0]
        return f"{three_digits(value / self.units[unit])}{'' if self.joined else ' '}{unit}".rstrip()

    def _factor(self, unit: str, text: str) -> float:
        if not unit and self.bare is not None:
            return self.bare
        known = {**self.others, **self.units}
        if unit in known:
            return known[unit]
        what = f"has the unit {_quoted(unit)}, which is none of a {self.name}" if unit else "has no unit"
        names = ", ".join(name for name in self.units if name)
        raise QuantityError(f"{_quoted(text)} {what}: use one of {names}, as in {self.example}.")


def three_digits(value: float) -> str:
    """Or all before the point, never an exponent: 0.0153, 1.98, 42.7, 373, 1,792."""
    if value == 0 or not math.isfinite(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    rounded = float(f"{value:.3g}")
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}"


def _is_whole(value: float) -> bool:
    """But for the rounding of a factor: 1.1 thousand is 1100.0000000000002."""
    return abs(value - round(value)) <= 1e-9 * max(1.0, value)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…")


def _prefixed(prefixes: Mapping[str, float], unit: str) -> dict[str, float]:
    return {prefix + unit: factor for prefix, factor in prefixes.items()}


_BYTES = {**_prefixed(_DECIMAL, "B"), **_prefixed(_BINARY, "B")}
_PER_S = {unit + "/s": factor for unit, factor in _BYTES.items()}
_FLOPS = _prefixed(_DECIMAL, "FLOP/s")
_COUNTS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}

BANDWIDTH = Dimension("bandwidth", _PER_S, ("B/s", "kB/s", "MB/s", "GB/s"), "905GB/s")
COMPUTE = Dimension(
    "compute rate",
    _FLOPS,
    ("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"),
    "31.8TFLOP/s",
    others=_prefixed(_DECIMAL, "FLOPS") | _prefixed(_DECIMAL, "FLOPs/s"),
)
MEMORY = Dimension("size", _BYTES, ("B", "kB", "MB", "GB", "TB"), "7.0GB or 4.32GiB")
PARAMETERS = Dimension(
    "number of parameters",
    _COUNTS | {"": 1.0},
    ("", "K", "M", "B", "T"),
    "12B or 135M",
    bare=1.0,
    joined=True,
    others={unit.lower(): factor for unit, factor in _COUNTS.items()},
)
BITS = Dimension("number of bits", {"bits": 1.0}, ("bits",), "4.5", bare=1.0, others={"bit": 1.0, "b": 1.0})
TOKENS = Dimension(
    "number of tokens",
    {"tokens": 1.0},
    ("tokens",),
    "80",
    bare=1.0,
    zero=True,
    whole=True,
    others={"token": 1.0, "tok": 1.0, "k": 1e3, "K": 1e3},
)
SPEED = Dimension("speed", {"tok/s": 1.0}, ("tok/s",), "85.6tok/s", bare=1.0, others={"tokens/s": 1.0, "t/s": 1.0})
_TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
TIME = Dimension("time", _TIMES | {"min": 60.0}, ("ns", "us", "ms", "s"), "320ms", zero=True, others={"µs": 1e-6})
MILLISECONDS = Dimension("time", TIME.units, TIME.scale, "320 or 320ms", bare=1e-3, zero=True, others=TIME.others)
SECONDS = Dimension("time", TIME.units, TIME.scale, "2.5 or 2.5s", bare=1.0, others=TIME.others)
COUNT = Dimension("count", {"": 1.0}, ("",), "16", bare=1.0, whole=True)
NUMBER = Dimension("number", {"": 1.0}, ("",), "3.3", bare=1.0)
SHARE = Dimension("share", {"%": 0.01}, ("%",), "66%")
INTENSITY = Dimension("intensity", {"FLOP/byte": 1.0}, ("FLOP/byte",), "3.3FLOP/byte")
