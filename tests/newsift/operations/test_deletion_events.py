import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.operations.deletion_events import read_deletion
from worker.config.limits import Limits

LIMITS = Limits()
SAMPLES = Path(__file__).parents[2] / "worker" / "posts"
BLUESKY = "at://did:plc:eygmaihciaxprqvxpfvl6flk/app.bsky.feed.post/"
DELETIONS = {  # of the samples, as their documents name the posts and the times
    "bluesky_delete": (("bluesky", BLUESKY + "3l3dn7tku762u"), "2024-09-05T06:11:06.833Z"),
    "bluesky_second_delete": (
        ("bluesky", BLUESKY + "3l3qo2vuowo2b"), "2024-09-09T19:46:02.329308Z"
    ),
    "mastodon_delete_event": (("mastodon", "106692867363994015"), None),
    "x1_delete": (("x", "1234"), "2014-10-29T18:41:54.400Z"),
    "x_compliance_delete": (("x", "601430178305220608"), "2022-12-23T12:34:56.789Z"),
}  # fmt: skip


def read(message: Any) -> Any:
    return read_deletion(json.dumps(message).encode(), LIMITS)


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.json")), ids=lambda file: file.stem)
def test_deletions_alone_are_deletions(sample: Path) -> None:
    assert read(json.loads(sample.read_bytes())["message"]) == DELETIONS.get(sample.stem)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"did": "d", "type": "com", "time_us": 1, "commit": {"type": "d", "collection":
          "app.bsky.feed.post", "rkey": "r"}}, (("bluesky", "at://d/app.bsky.feed.post/r"),
                                               "1970-01-01T00:00:00.000Z")),
        ({"did": "d", "kind": "commit", "commit": {"operation": "delete", "collection":
          "app.bsky.feed.like", "rkey": "r"}}, None),
        ({"event": "delete", "payload": 12}, (("mastodon", "12"), None)),
        ({"event": "delete", "payload": ""}, None),
        ({"event": "delete", "payload": {"id": "12"}}, None),
        ({"delete": {"status": {"id": 2**60}}}, (("x", str(2**60)), None)),
        ({"delete": {"status": {"id": 1}, "timestamp_ms": "soon"}}, (("x", "1"), None)),
        ({"delete": {"status": {"id": 1}, "timestamp_ms": "9" * 5_000}}, (("x", "1"), None)),
        ({"delete": {"status": {"id": 1}, "timestamp_ms": "9" * 30}},
         (("x", "1"), "9999-12-31T23:59:59.999Z")),
        ({"data": {"drop": {"tweet": {"id": "1"}, "event_at": "2022-12-23T12:34:56Z"}}}, None),
        ({"data": {"delete": {"tweet": {"id": "1"}, "event_at": "now"}}}, (("x", "1"), None)),
        ({"id": "1", "text": "\"delete\"", "delete": {"status": {"id": 1}}}, None),
        ({"delete": {"status": [[[["deep"] * 3]]]}}, None),
    ],
)  # fmt: skip
def test_odd_deletions(message: Any, expected: Any) -> None:
    assert read(message) == expected


def test_a_message_that_no_post_may_be_is_not_read() -> None:
    notice = b'{"delete": {"status": {"id": 1}}, "more": "%s"}'
    assert read_deletion(notice % b"x", Limits(post_bytes=100)) is not None
    assert read_deletion(notice % (b"x" * 100), Limits(post_bytes=100)) is None
    assert read_deletion(b'{"delete": ' + b"[" * 100_000, LIMITS) is None
    assert read_deletion(None, LIMITS) is None


PARTS = st.sampled_from([
    b'{"delete":', b'"event":"delete"', b'"payload":', b'"did":"d","kind":"commit"', b'"d"', b"{",
    b"}", b",", b'"commit":', b"1", b"null", b'"\\ud800"', b"\xff", b'"id":', b'{"data":', b"[",
])  # fmt: skip


@given(st.lists(PARTS, max_size=12))
def test_any_bytes_are_read_or_not(parts: list[bytes]) -> None:
    deletion = read_deletion(b"".join(parts), LIMITS)
    assert deletion is None or all(deletion.post_id)
