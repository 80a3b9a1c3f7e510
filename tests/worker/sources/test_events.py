"""The parser of server-sent events, against the rules of the WHATWG's page, however bytes fall.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.sources.events import EventParser, SentEvent
from worker.sources.source import LostError

ENDS = st.sampled_from(["\n", "\r", "\r\n"])
LINE = st.sampled_from(["", ":thump", "event: update", "data: {}", "data:x", "data", "id: 1", "a"])


def by_lines(lines: list[str]) -> list[SentEvent]:
    """The events of lines, by a loop that follows the page step by step."""
    found: list[SentEvent] = []
    name, data = "", list[str]()
    for line in lines:
        if line == "":
            if data:
                found.append(SentEvent(name or "message", "\n".join(data).encode()))
            name, data = "", []
        elif line[0] == ":":
            found.append(SentEvent("", b""))
        else:
            field, value = line, ""
            if ":" in line:
                field, value = line.split(":", 1)
                value = value[1:] if value[:1] == " " else value
            if field == "event":
                name = value
            if field == "data":
                data.append(value)
    return found


@given(st.lists(st.tuples(LINE, ENDS), max_size=20), st.data())
def test_events_are_the_same_however_the_bytes_fall(
    lines: list[tuple[str, str]], data: st.DataObject
) -> None:
    for i, (line, end) in enumerate(lines[:-1]):  # \r before an empty line's \n would be one end
        if end == "\r" and lines[i + 1] == ("", "\n"):
            lines[i] = line, "\n"
    whole = "".join(line + end for line, end in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    parser, found = EventParser(), list[SentEvent]()
    for low, high in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        found += parser.feed(whole[low:high])
    assert found == by_lines([line for line, _ in lines])


@pytest.mark.parametrize("part", [b"x" * 60, b"data: " + b"x" * 30 + b"\n", b"id:\n" * 15])
def test_an_event_without_end_is_given_up(part: bytes) -> None:
    parser = EventParser(largest=100)
    list(parser.feed(part))
    with pytest.raises(LostError, match="more than 100 bytes"):
        list(parser.feed(3 * part))


def test_heartbeats_do_not_count_to_an_event() -> None:
    parser = EventParser(largest=100)
    assert all(list(parser.feed(b":thump\n")) for _ in range(1000))
