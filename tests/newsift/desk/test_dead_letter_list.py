"""Dead letters in bounded memory: counted once each, the newest kept, bytes shown as they are."""

from types import SimpleNamespace
from typing import Any
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.desk import dead_letters as letters
from newsift.desk.dead_letters import DeadLetterList, as_text, in_hex
from tests.newsift.desk.matched import HOSTILE
from worker.config import load_config


def message(n: int, reason: str = "bad_json", **more: Any) -> Any:
    answer = {"source": f"tweets-0-{n}", "reason": reason, "detail": f"d{n}"}
    result = {
        "topic": "rejected-tweets", "partition": 0, "offset": n, "timestamp": 1_795_000_000_000 + n,
        "key": None, "value": b"{", "headers": [(k, v.encode()) for k, v in answer.items()],
    }  # fmt: skip
    return SimpleNamespace(**(result | more))


@pytest.fixture
def created() -> DeadLetterList:
    return DeadLetterList(load_config())


def test_each_dead_letter_is_counted_once(created: DeadLetterList) -> None:
    created.take([message(1), message(2, "no_id"), message(1)])
    created.take([message(2, "no_id"), message(3)])
    result = created.summary()
    assert result["reasons"] == {"bad_json": 2, "no_id": 1}
    assert [row["id"] for row in result["newest"]] == ["tweets-0-3", "tweets-0-2", "tweets-0-1"]
    assert (result["all"], result["older"], result["retryable"]) == (3, 0, ["bad_json", "no_id"])


def test_memory_is_bounded_and_of_a_long_topic_the_end_is_read(
    created: DeadLetterList, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters, "MOST_READ", 40)
    cluster: Any = SimpleNamespace(
        beginnings=lambda _: {0: 10, 1: 0}, ends=lambda _: {0: 100, 1: 5}
    )
    assert created.begin(cluster) == {0: 80, 1: 0}
    created.take([message(n, f"r{n}") for n in range(500)])
    for n in range(500):
        created.note_retry(str(n))
    result = created.summary()
    assert (result["all"], result["older"], len(result["newest"])) == (500, 70, 200)
    assert result["newest"][0]["id"] == "tweets-0-499"
    assert (len(result["reasons"]), result["reasons"]["others"]) == (101, 400)
    assert max(len(created._counted), len(created._retried)) <= 40


def test_a_dead_letter_without_bytes_has_an_obstacle_to_its_retry(created: DeadLetterList) -> None:
    created.take([message(1), message(2, value=None), message(3, "bad_batch")])
    created.note_retry("tweets-0-1")
    rows = {row["offset"]: row for row in created.summary()["newest"]}
    assert (rows[1]["obstacle"], rows[1]["retried"]) == (None, True)
    assert "no bytes" in rows[2]["obstacle"]
    assert "nothing to retry" in rows[3]["obstacle"]


def test_hostile_headers_are_shown_as_escapes(created: DeadLetterList) -> None:
    odd = [("reason", HOSTILE.encode() * 99), ("detail", b"\xff\x00\x1b[31m\n"), ("attempt", b"x")]
    created.take([message(1, headers=odd)])
    row = created.summary()["newest"][0]
    assert (row["id"], row["detail"]) == ("rejected-tweets-0-1", "\ufffd\\x00\\x1b[31m")
    assert len(row["reason"]) <= 500
    assert all(name.isprintable() for name in [row["reason"], *created.summary()["reasons"]])


def test_bytes_are_shown_as_text_and_in_hex() -> None:
    raw = b'{"id": \xff,\n"t": "caf\xc3\xa9 \x1b[31m \xe2\x80\xae"}'
    assert as_text(raw) == '{"id": \\xff,\n"t": "café \\x1b[31m \\u202e"}'
    assert in_hex(b"AB\x00\xff") == "00000000  41 42 00 ff" + " " * 38 + "AB.."
    assert len(as_text(b"a" * 10**6) or "") == 4096


@given(st.binary(max_size=2000))
def test_no_byte_steers_the_terminal(raw: bytes) -> None:
    lines = in_hex(raw).splitlines()
    assert b"".join(bytes.fromhex(line[10:57]) for line in lines) == raw[:512]
    assert all(line.isprintable() for line in lines)
    for char in as_text(raw) or "":
        assert char == "\n" or char.isprintable() or category(char) == "Zs"
