"""Dead letters of a worker's process: the input's headers and time are in them, and bounded."""

import pytest

from tests.broker.clients import producer, read_to_end, until
from tests.faults.story import Story

pytestmark = pytest.mark.slow


def test_headers_and_time_of_the_input_are_kept_and_a_hostile_header_is_left_out(
    story: Story,
) -> None:
    address, topics = story.server.address, story.topics
    headers = [("lang", b"de"), ("huge", b"h" * 600_000)]
    with producer(address) as client:
        sending = client.send(
            topics["posts"], b"{", key=b"k", headers=headers, timestamp_ms=1_700_000_000_123
        )
        sent = sending.get(timeout=30)
    story.worker().ready()
    until(lambda: read_to_end(address, topics["rejected"]))
    (letter,) = read_to_end(address, topics["rejected"])
    told = dict(letter.headers)
    assert (letter.key, letter.value) == (b"k", b"{")
    assert [pair for pair in letter.headers if pair[0].startswith("input.")] == [
        ("input.lang", b"de"),
    ]  # fmt: skip
    assert letter.timestamp == sent.timestamp == int(told["timestamp"])
    assert told["detail"].endswith(b" (1 of the input's headers are left out)")
