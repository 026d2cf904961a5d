"""Server-sent events in any pieces, and how much of them is kept."""

import pytest

from agent.llm.sse import MAX_EVENT_BYTES, EventParser, EventTooLong

STREAM = ": ping\n\ndata: é1\ndata:2\nid: 7\n\n\nevent: x\n\ndata\n\ndata: [DONE]\n\ndata: unfinished"
WANTED = ["é1\n2", "", "[DONE]"]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n"])
def test_events_in_any_pieces_with_any_line_ends(line_end: str, mark: bytes) -> None:
    data = mark + STREAM.replace("\n", line_end).encode()
    for size in (1, 2, 3, 7, len(data)):
        parser = EventParser()
        blocks = [data[at : at + size] for at in range(0, len(data), size)]
        assert [text for block in blocks for text in parser.feed(block)] == WANTED


def test_an_event_comes_with_its_blank_line_whatever_ends_lines() -> None:
    for line_end in (b"\n", b"\r", b"\r\n"):
        assert list(EventParser().feed(b"data: x" + 2 * line_end)) == ["x"]


def test_a_byte_order_mark_counts_only_at_the_start() -> None:
    assert list(EventParser().feed(b"data: a\n\n\xef\xbb\xbfdata: b\n\n")) == ["a"]


@pytest.mark.parametrize("block", [b"x" * 1000, b"data: x\n" * 125, b": x\n" * 250])
def test_an_event_is_kept_up_to_a_bound(block: bytes) -> None:
    parser = EventParser()
    with pytest.raises(EventTooLong):
        for _ in range(MAX_EVENT_BYTES // 1000 + 1):
            list(parser.feed(block))


def test_the_bound_is_of_each_event() -> None:
    parser, half = EventParser(), b"data: " + b"x" * (MAX_EVENT_BYTES // 2) + b"\n\n"
    assert [len(text) for _ in range(5) for text in parser.feed(half)] == [MAX_EVENT_BYTES // 2] * 5
