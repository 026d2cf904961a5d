"""What is written as TOML is read back as it was."""

import math
import tomllib
from typing import Any

import pytest

from agent.toml_text import toml


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        'quotes " and \\ backslashes \\\\ and \\n',
        "three \"\"\" quotes and '''",
        "lines\nand\r\ntabs\t",
        "".join(map(chr, range(32))) + "\x7f\x80\x9f",
        "ünï \u2028 \U0001f600 \ufeff",
        "# no comment = [no table]",
        ']]\n[[utterances]]\nfile = "x"',
    ],
)
def test_any_text_as_a_value_and_as_a_key(text: str) -> None:
    tree = {"value": text, text: 1, "table": {text: {"value": text}}, "many": [{text: text}]}
    assert tomllib.loads(toml(tree)) == tree


@pytest.mark.parametrize(
    "value", [True, False, 0, -5, 2**62, 0.1, -1e-300, 1e300, 5.0, [], [1, 2], ["a", "b"], [[1], []]]
)
def test_other_values_keep_their_types(value: Any) -> None:
    (read,) = tomllib.loads(toml({"value": value})).values()
    assert read == value and type(read) is type(value)


def test_what_is_no_number_is_written_as_toml_writes_it() -> None:
    read = tomllib.loads(toml({"a": math.inf, "b": -math.inf, "c": math.nan}))
    assert (read["a"], read["b"]) == (math.inf, -math.inf) and math.isnan(read["c"])


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert tomllib.loads(toml({"a": "x\ud800y"})) == {"a": "x?y"}


def test_values_go_before_tables_and_none_is_left_out() -> None:
    tree = {"a": {"b": {"c": 1}}, "rows": [{"x": 1, "y": {"z": 2}}, {"x": 3}], "last": 1, "none": None}
    del (expected := dict(tree))["none"]
    assert tomllib.loads(toml(tree)) == expected


def test_what_toml_does_not_know_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes"):
        toml({"a": b"x"})
