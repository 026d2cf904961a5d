"""What a study has found, ready to be shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Series:
    """Points of a plot, `y` within `low` and `high` where these are given. "bars" stand side by side, one for each
    x."""

    label: str
    x: Sequence[float | str]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    style: Literal["points", "line", "bars"] = "points"


@dataclass(frozen=True)
class Plot:
    """Axis labels name units. With `from_zero` the y axis begins at 0."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = True


@dataclass(frozen=True)
class Finding:
    """`rows` have a cell for each of `columns`, the first of which is a name and the others figures; `sentence` answers
    the study's question; `notes` say what disturbs the answer; `data` is what was measured, in JSON's types."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    plot: Plot
    sentence: str
    notes: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
