import json

import pytest

from profiling.trace.integer_arrays import loads


def values(*items: dict[str, object]) -> dict[str, object]:
    return {"values": list(items)}


def integer(text: str) -> dict[str, object]:
    return {"intValue": text}


def line(found: object) -> bytes:
    return json.dumps(found, separators=(",", ":")).encode()


def test_an_array_of_integers_alone_becomes_a_list_of_them():
    assert loads(line({"a": values(integer("1"), integer("-20"), integer("0"))})) == {"a": [1, -20, 0]}
    assert loads(line([values(integer("7")), values(integer("8"))])) == [[7], [8]]


@pytest.mark.parametrize(
    "found",
    [
        values(),
        values({"stringValue": "x"}, integer("1")),
        values(integer("1"), {"stringValue": 'y"},{"intValue":"2'}),
        values(integer("1"), {"doubleValue": 0.5}),
        values(integer("one")),
        values(integer("")),
        values(integer("007")),
        values(integer("1-2")),
        {"text": '{"values":[{"intValue":"1"}]}'},
        {"text": '\\{"values":[{"intValue":"1"}]}'},
    ],
)
def test_everything_else_is_read_as_json_reads_it(found: object):
    assert loads(line(found)) == found


def test_other_white_space_and_numbers_that_are_no_texts_are_read_as_json_reads_them():
    for text in ('{"values": [{"intValue": "1"}]}', '{"values":[{"intValue":1}]}'):
        assert loads(text.encode()) == json.loads(text)


def test_a_line_that_is_cut_off_is_no_json_wherever_that_is():
    whole = line({"a": values(integer("1"), integer("23")), "b": values(integer("4"))})
    for size in range(1, len(whole)):
        with pytest.raises(ValueError):
            loads(whole[:size])
