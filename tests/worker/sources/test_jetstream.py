"""What a Jetstream sends, read by the documents; and whatever anybody sends does no harm."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from encoder.errors import InputError
from tests.worker.sources.jetstream_side import BASE, STEP, address, event
from worker.sources.frame import Frame, Mark
from worker.sources.jetstream import KEY_BYTES, LARGEST_CURSOR, Jetstream, JetstreamSaid

HOSTS = {1: "wss://one.test/subscribe",
         2: "wss://two.test/xrpc/network.bsky.jetstream.subscribeEvents"}  # fmt: skip
LEXICON = "network.bsky.jetstream.subscribeEvents#"


def jetstream(version: int, *langs: str) -> Jetstream:
    return Jetstream(URL(HOSTS[version]), ("app.bsky.feed.post",), langs)


def read(version: int, message: Any, *langs: str) -> Frame | JetstreamSaid:
    value = message if isinstance(message, bytes) else json.dumps(message).encode()
    return jetstream(version, *langs).read(value)


@pytest.mark.parametrize("version", [1, 2])
def test_an_event_is_a_frame_with_its_address_its_cursor_and_its_time(version: int) -> None:
    value = event(7, version).encode()
    at = (BASE + 7 * STEP) / 1e6
    cursor = BASE + 7 * STEP if version == 1 else 8
    assert read(version, value) == Frame(value, address(7).encode(), cursor, at)


@pytest.mark.parametrize(
    ("version", "message", "key", "cursor"),
    [
        (1, {"did": "did:plc:a", "time_us": 5, "kind": "account", "account": {}}, b"did:plc:a", 5),
        (1, {"did": "d", "time_us": 5, "kind": "commit", "commit": {
            "operation": "delete", "collection": "c", "rkey": "k"}}, b"at://d/c/k", 5),
        (1, {"kind": "commit"}, None, None),
        (2, {"$type": "message", "payload": {"$type": f"{LEXICON}sync", "seq": 5, "did": "d",
             "time": "2024-09-09T19:46:02.329308Z"}}, b"d", 5),
        (2, {"$type": "message", "payload": {"$type": f"{LEXICON}commit", "seq": 5, "did": "d",
             "collection": "c", "rkey": "k"}}, b"at://d/c/k", 5),
        (2, {"$type": "other"}, None, None),
    ],
)  # fmt: skip
def test_other_events_are_frames_too(
    version: int, message: dict[str, Any], key: bytes | None, cursor: int | None
) -> None:
    found = read(version, message)
    assert isinstance(found, Frame)
    assert (found.key, found.cursor) == (key, cursor)


@pytest.mark.parametrize("cursor", [-1, LARGEST_CURSOR + 1, 10**30])
def test_a_cursor_that_nobody_could_ask_for_is_none(cursor: int) -> None:
    for version, message in (
        (1, {"did": "d", "time_us": cursor}),
        (2, {"$type": "message", "payload": {"seq": cursor}}),
    ):
        found = read(version, message)
        assert isinstance(found, Frame)
        assert found.cursor is None


def test_a_key_that_is_no_address_is_left_out() -> None:
    found = read(1, {"did": "d" * (KEY_BYTES + 1), "time_us": 5})
    assert isinstance(found, Frame)
    assert (found.key, found.cursor) == (None, 5)


@pytest.mark.parametrize("langs", [[], ["EN-us", "de"], ["en"], None])
def test_posts_in_a_language_or_in_none_are_wanted(langs: list[str] | None) -> None:
    message = json.loads(event(1, 1))
    message["commit"]["record"]["langs"] = langs
    found = read(1, message, "en")
    assert isinstance(found, Frame)
    assert found.value
    other = read(1, message, "ja")
    assert isinstance(other, Frame)
    assert bool(other.value) == (not langs)
    assert other.cursor == found.cursor


ODD = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
KEYS = ("did", "time_us", "commit", "collection", "rkey", "record", "langs", "$type", "payload",
        "seq", "time", "error", "name", "message")  # fmt: skip


@given(st.sampled_from([1, 2]), st.data())
def test_one_value_changed_does_no_harm(version: int, data: st.DataObject) -> None:
    message = json.loads(event(3, version))
    place = message
    while True:
        key = data.draw(st.sampled_from([*KEYS, *place]))
        if not isinstance(place.get(key), dict) or data.draw(st.booleans()):
            place[key] = data.draw(ODD)
            break
        place = place[key]
    value = json.dumps(message).encode()
    found = read(version, value, "en")
    if isinstance(found, Frame):
        assert found.value in (value, b"")
        assert found.cursor is None or 0 <= int(found.cursor) <= LARGEST_CURSOR


@given(st.sampled_from([1, 2]), st.binary(max_size=200))
def test_bytes_of_any_kind_go_on_as_they_are(version: int, value: bytes) -> None:
    found = read(version, value)
    assert isinstance(found, Frame)
    assert found.value == value


@pytest.mark.parametrize("cursor", ["", "abc", -1, 2**63, "5"])
def test_a_state_with_a_cursor_of_another_kind_is_refused(cursor: int | str) -> None:
    host = jetstream(1)
    with pytest.raises(InputError, match=r"^--state: the cursor .* delete the file"):
        host.since(Mark(cursor, host.place))


@pytest.mark.parametrize("at", [None, 0.0, -1e308, 1e308, 5.0])
def test_a_time_that_is_none_of_theirs_is_not_asked_for(at: float | None) -> None:
    assert jetstream(2).since(Mark(5, "elsewhere", at)) is None


@pytest.mark.parametrize("url", ["ws://h/", "ws://h/subscribe2", "ws://h/xrpc/other"])
def test_a_path_of_neither_interface_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="none of a Jetstream"):
        Jetstream(URL(url), (), ())
