import hashlib
import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.worker.small_encoder import Mail
from worker.match.records import (
    Origin,
    RecordRules,
    ScoredPair,
    match_id,
    select_why_tokens,
    shortest_float,
    to_dead_letter,
    to_match,
    to_match_record,
    without_input_headers,
)
from worker.posts.read import Post, Reason
from worker.seeds.record import Seed

SEED = Seed("s1", "Dam", "The dam broke.", "texas")


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(words, words, words)
@example("17", 'Überflutung in "Texas"\n\u2028', "ab" * 32)
def test_a_match_id_is_that_of_the_contracts_formula(post_id: str, text: str, model: str) -> None:
    listed = ["x", post_id, text, SEED.id, SEED.version, model]
    plain = json.dumps(listed, ensure_ascii=False, separators=(",", ":")).encode()
    assert match_id(Post(post_id, "x", text), SEED, model) == hashlib.sha256(plain).hexdigest()[:32]


@given(st.floats(-1, 1, width=32), st.floats(-1, 1, width=32))
def test_written_numbers_keep_value_and_order(a: float, b: float) -> None:
    written = shortest_float(np.float32(a)), shortest_float(np.float32(b))
    assert [np.float32(x) for x in written] == [np.float32(a), np.float32(b)]
    assert (written[0] >= written[1]) == (a >= b)


def test_a_match_keeps_the_instance_of_its_post_and_no_other_header() -> None:
    named, other = ("instance", b"m.example"), ("instance", b"n.example")
    for headers, expected in (
        ([("lang", b"de"), named, other], [named]), ([("instance", b"m" * 255)], None), ([], []),
        ([("instance", b"")], []), ([("instance", None)], []), ([("instance", b"m" * 256)], []),
    ):  # fmt: skip
        message, post = Mail(b"", headers=headers), Post("1", "mastodon", "dam")  # type: ignore[arg-type]
        pair = ScoredPair(post, SEED, np.float32(0.5), np.float32(0.25))
        made = to_match(pair, "m", [], RecordRules())
        record = to_match_record(0, message, post, [made], 1, Origin("s", "m", "now"))
        assert record.headers[1:] == (headers if expected is None else expected)


def test_a_dead_letter_is_the_input_with_its_reason() -> None:
    message = Mail(b"\xff{", "tweets", 2, 99, key=b"k\xff", headers=[("lang", b"de")])
    record = to_dead_letter(4, message, Reason.INVALID_UTF8, "value: byte 0 \ud800 é")
    assert (record.kind, record.key, record.value) == ("rejected", b"k\xff", b"\xff{")
    assert (record.source, record.timestamp) == (4, 1_700_000_000_000)
    assert dict(record.headers) == {
        "reason": b"invalid_utf8", "detail": b"value: byte 0 \\ud800 \xc3\xa9",
        "source": b"tweets-2-99", "attempt": b"1", "schema": b"newsift.rejected/1", "bytes": b"2",
        "sha256": hashlib.sha256(b"\xff{").hexdigest().encode(), "timestamp": b"1700000000000",
        "input.lang": b"de",
    }  # fmt: skip


def test_a_dead_letter_keeps_the_inputs_headers_but_for_those_of_a_retry() -> None:
    own = [("reason", b"mine"), ("lang", None), ("lang", b"en"), ("attempt", b"2"),
           ("retry.of", b"tweets-0-1")]  # fmt: skip
    message = Mail(b"{", headers=own)  # type: ignore[arg-type]
    headers = to_dead_letter(0, message, Reason.BAD_JSON, "d").headers
    assert [pair for pair in headers if pair[0].startswith("input.")] == [
        ("input.reason", b"mine"), ("input.lang", None), ("input.lang", b"en"),
    ]  # fmt: skip
    assert dict(headers)["reason"] == b"bad_json"
    assert dict(headers)["attempt"] == b"2"
    assert without_input_headers(headers) == headers[: len(headers) - 3]


@pytest.mark.parametrize(
    "hostile",
    [[("x", b"v" * 2**20)], [("n" * 2**20, b"")], [("ü" * 9000, b"")], [("", b"")] * 5000],
)
def test_hostile_headers_are_left_out_and_counted(hostile: list[tuple[str, bytes]]) -> None:
    message = Mail(b"{", headers=[("lang", b"de"), *hostile, ("last", b"1")])
    headers = to_dead_letter(0, message, Reason.BAD_JSON, "d" * 9999).headers
    assert ("input.lang", b"de") in headers
    assert sum(len(name.encode()) + len(value) for name, value in headers) < 2**15
    assert len(headers) < 1100
    detail = dict(headers)["detail"].decode()
    assert len(detail) == 500
    copied = sum(name.startswith("input.") for name, _ in headers)
    assert detail.endswith(f" ({len(hostile) + 2 - copied} of the input's headers are left out)")


def test_a_message_without_time_or_value_has_no_such_headers() -> None:
    for timestamp in (-1, None):
        record = to_dead_letter(0, Mail(None, timestamp=timestamp), Reason.EMPTY_VALUE, "")
        assert record.timestamp is None
        assert {"timestamp", "bytes", "sha256"}.isdisjoint(dict(record.headers))


@pytest.mark.parametrize("reason", list(Reason))
def test_a_dead_letter_over_the_size_limit_has_no_value(reason: Reason) -> None:
    record = to_dead_letter(0, Mail(b"v" * 9, key=b"k"), reason, "d" * 9999)
    large = reason in (Reason.POST_BYTES, Reason.RECORD_TOO_LARGE)
    assert record.value == (None if large else b"v" * 9)
    assert record.key == b"k"
    assert len(dict(record.headers)["detail"]) == 500
    assert dict(record.headers)["bytes"] == b"9"
    assert dict(record.headers)["sha256"].decode() == hashlib.sha256(b"v" * 9).hexdigest()


@pytest.mark.parametrize(
    ("headers", "attempt"),
    [([], b"1"), ([("attempt", b"2"), ("attempt", b"3")], b"3"), ([("attempt", b"zwei")], b"1"),
     ([("attempt", b"9" * 5000)], b"1"), (None, b"1")],
)  # fmt: skip
def test_the_attempt_is_that_of_the_retry(headers: object, attempt: bytes) -> None:
    message = Mail(b"", headers=headers)  # type: ignore[arg-type]
    assert dict(to_dead_letter(0, message, Reason.NO_ID, "").headers)["attempt"] == attempt


def test_why_names_the_words_that_counted_most() -> None:
    parts = [(f"w{i}", (-1) ** i * i / 100) for i in range(12)] + [("", 9.0), ("faint", 1e-9)]
    named = select_why_tokens(parts)
    assert named[:3] == [("w11", -0.11), ("w10", 0.1), ("w9", -0.09)]
    assert len(named) == 8
    assert select_why_tokens([("a", 0.0), ("", 0.4)]) == []
    few = [(":", 0.3), ("flood", 0.2), ("🌊", 0.1), ("the", 0.009), ("dry", -0.011)]
    assert select_why_tokens(few) == [("flood", 0.2), ("🌊", 0.1), ("dry", -0.011)]
