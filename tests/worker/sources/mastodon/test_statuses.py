"""Events and ids of strangers: no bytes of theirs stop the collector, nor grow a key."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.sources.mastodon.instance_side import status, status_id
from worker.posts.read import read_post
from worker.sources.mastodon.statuses import (
    Happened,
    Newest,
    event_value,
    id_before,
    made_at,
    order,
    status_identity,
)
from worker.sources.mastodon.timeline import statuses
from worker.sources.source import LostError

NAMES = st.sampled_from(["update", "status.update", "delete", "announcement", "ü\n"])
IDS = st.one_of(st.text(), st.integers(), st.none(), st.from_regex(r"[0-9]{1,80}", fullmatch=True))
DATA = st.one_of(
    st.binary(max_size=60),
    IDS.map(lambda id: json.dumps({"id": id, "content": "a", "uri": "b"}).encode()),
    st.just(b"[" * 100_000),
)


@given(st.lists(st.tuples(NAMES, DATA), max_size=8))
def test_no_event_is_too_odd(events: list[tuple[str, bytes]]) -> None:
    newest = Newest()
    for name, data in events:
        frame = newest.event(Happened(name, data, event_value(name, data)))
        if frame is not None:
            assert len(frame.key or b"") <= 64
            assert isinstance(json.loads(frame.value), dict)
            read_post(frame.value)


@given(st.lists(st.integers(1, 10**18), unique=True, max_size=20))
def test_ids_are_in_the_order_of_their_numbers(numbers: list[int]) -> None:
    ids = sorted(map(str, numbers), key=order)
    assert [int(id) for id in ids] == sorted(numbers)


@given(st.integers(0, 10**9), st.integers(0, 10**6))
def test_an_id_holds_its_time(second: int, seconds: int) -> None:
    id = status_id(second)
    assert made_at(id) == 1_790_000_000 + second
    assert made_at(id_before(id, seconds)) == 1_790_000_000 + second - seconds


@pytest.mark.parametrize("id", ["17", "9yCjTtfzBxBqvbmXsm"])
def test_an_id_without_time_stays(id: str) -> None:
    assert made_at(id) is None
    assert id_before(id, 60) == id


def test_a_status_comes_once() -> None:
    newest, one = Newest(), json.dumps(status(status_id(1))).encode()
    id = status_identity(one)
    assert id == status_id(1)
    assert newest.status(one, id) is not None
    assert newest.status(one, id) is None


@given(st.lists(st.integers(1, 10**18), max_size=50))
def test_a_page_is_read_oldest_first(numbers: list[int]) -> None:
    body = json.dumps([{"id": str(number)} for number in numbers] + [{}, {"id": "a b"}]).encode()
    found = statuses(body, "m.example")
    assert [int(id) for id, _ in found] == sorted(numbers)
    assert [json.loads(value)["id"] for _, value in found] == [id for id, _ in found]


@pytest.mark.parametrize("body", [b"", b"{}", b"<html>", b"[" * 100_000])
def test_what_is_no_page_ends_the_connection(body: bytes) -> None:
    with pytest.raises(LostError, match="not as documented"):
        statuses(body, "m.example")
