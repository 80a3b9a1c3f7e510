"""Posts from bytes: every form by example files, and every reason to reject one."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.worker.messages import EXAMPLES, Example
from worker.config import DEFAULT_LIMITS, Limits
from worker.posts.checks import DEPTH
from worker.posts.read import FORMS, PassedOver, Post, Reason, Rejected, read_post

FROM_ELSEWHERE = {
    Reason.OUT_OF_MEMORY,
    Reason.NOT_FINITE,
    Reason.FAILED,
    Reason.RECORD_TOO_LARGE,
    Reason.BATCH_BYTES,
    Reason.BAD_BATCH,
}


def rejected(value: bytes | None, form: str = "auto", limits: Limits = DEFAULT_LIMITS) -> Rejected:
    outcome = read_post(value, form, limits)
    assert isinstance(outcome, Rejected), outcome
    return outcome


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_becomes_what_its_file_says(example: Example) -> None:
    for ascii_only in (True, False):
        value = json.dumps(example.message, ensure_ascii=ascii_only).encode()
        for found in (read_post(value), read_post(value, example.form)):
            assert msgspec.structs.asdict(found) == example.expected


def test_every_form_has_examples() -> None:
    assert {example.form for example in EXAMPLES} == set(FORMS) - {"auto"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [b"\r\n", b"\n", b"\r\n\r\n"])
def test_a_keep_alive_is_passed_over(form: str, value: bytes) -> None:
    assert read_post(value, form) == PassedOver("no_post")


DEEP = b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1)
BAD: list[tuple[bytes | None, Reason, str]] = [
    (None, Reason.EMPTY_VALUE, "value: null"),
    (b"", Reason.EMPTY_VALUE, "value: empty"),
    (b"   ", Reason.BAD_JSON, "value: "),
    (b"hello", Reason.BAD_JSON, "value: "),
    (b'{"id": "1", "text": "cut', Reason.BAD_JSON, "value: Input data was truncated"),
    (b'{"id": "1", "text": "x"} {', Reason.BAD_JSON, "trailing"),
    (b'{"id": "1", "text": "x", "n": NaN}', Reason.BAD_JSON, "value: "),
    (b'{"id": "1", "text": 5, "n": }', Reason.BAD_JSON, "value: "),
    (b'{"id": "1", "text": "a\x00b"}', Reason.BAD_JSON, "value: "),
    (b'\xef\xbb\xbf{"id": "1", "text": "x"}', Reason.BAD_JSON, "value: "),
    ('{"id": "1", "text": "x"}'.encode("utf-16"), Reason.INVALID_UTF8, "at byte 1"),
    (b'{"id": "1", "text": "caf\xe9"}', Reason.INVALID_UTF8, "at byte 25"),
    (b'{"id": "1", "text": "x", "ignored": "\xed\xa0\x80"}', Reason.INVALID_UTF8, "byte 38"),
    (rb'{"id": "1", "text": "\ud83d"}', Reason.LONE_SURROGATE, r"\ud83d at byte 22"),
    (rb'{"id": "1", "text": "\ude00 and more text"}', Reason.LONE_SURROGATE, r"\ude00"),
    (rb'{"id": "1", "text": "\ud83d\ud83d\ude00"}', Reason.LONE_SURROGATE, r"\ud83d at byte 22"),
    (rb'{"id": "1", "text": "x", "ignored": ["\uD800"]}', Reason.LONE_SURROGATE, r"\uD800"),
    (rb'{"id": "1", "text": "\\ud83d", oops}', Reason.BAD_JSON, "value: "),
    (rb'{"id": "1", "text": "\ud83d", oops}', Reason.BAD_JSON, "value: "),
    (DEEP, Reason.TOO_DEEP, f"deeper than {DEPTH}"),
    (b'{"id": "1", "text": "x", "ignored": ' + DEEP + b"}", Reason.TOO_DEEP, "deeper"),
    (b'{"a":' * 99_999, Reason.TOO_DEEP, "deeper"),
    (b"[1]", Reason.WRONG_TYPE, "value: expected an object, found an array"),
    (b"null", Reason.WRONG_TYPE, "value: expected an object, found null"),
    (b'{"id": 1.5, "text": "x"}', Reason.WRONG_TYPE, "id: expected an integer or a string"),
    (b'{"id": true, "text": "x"}', Reason.WRONG_TYPE, "found a boolean"),
    (b'{"id": {"$oid": "1"}, "text": "x"}', Reason.WRONG_TYPE, "found an object"),
    (b'{"id": ' + b"9" * 5000 + b', "text": "x"}', Reason.WRONG_TYPE, "id: integer value out of"),
    (b'{"data": {"id": ' + b"9" * 20 + b', "text": "x"}}', Reason.WRONG_TYPE, "data.id: expected"),
    (b'{"id_str": "1", "id": ' + b"9" * 4200 + b"}", Reason.WRONG_TYPE, "id: expected `int` <= 9"),
    (b'{"id": "1", "text": "x", "lang": ["en"]}', Reason.WRONG_TYPE, "lang: expected a string"),
    (b'{"data": [{"id": "1", "text": "x"}]}', Reason.WRONG_TYPE, "data: expected an object"),
    (b'{"text": "x"}', Reason.NO_ID, "id: missing"),
    (b'{"id": null, "text": "x"}', Reason.NO_ID, "id: missing"),
    (b'{"id": "", "text": "x"}', Reason.NO_ID, "id: empty"),
    (b'{"id": " \\n", "text": "x"}', Reason.NO_ID, "id: empty"),
    (b'{"data": {"text": "x"}}', Reason.NO_ID, "id: missing"),
    (b'{"id_str": "", "full_text": "x"}', Reason.NO_ID, "id: missing"),
    (b'{"id": "1"}', Reason.NO_TEXT, "text: missing"),
    (b'{"id": "1", "text": null}', Reason.NO_TEXT, "text: missing"),
    (b'{"id": "1", "text": 5}', Reason.NO_TEXT, "text: expected a string or null, found an int"),
    (b'{"data": {"id": "1", "text": ["x"]}}', Reason.NO_TEXT, "data.text: expected a string"),
    (b'{"id_str": "1", "user": {}}', Reason.NO_TEXT, "text: missing"),
    (b"{}", Reason.UNKNOWN_FORM, "no known form: none"),
    (b'{"bericht": "x", "a\\u001b[31m": 1}', Reason.UNKNOWN_FORM, "form: bericht, a�[31m"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "reason", "said"), BAD, ids=range(len(BAD)))
def test_a_bad_value_is_rejected_and_says_why(
    value: bytes | None, reason: Reason, said: str
) -> None:
    found = rejected(value)
    assert (found.reason, said in found.detail) == (reason, True), found
    assert found.detail.isprintable()
    assert len(found.detail) <= 200


def test_every_reason_that_bytes_can_have_is_tested() -> None:
    limits = {Reason.POST_BYTES, Reason.LIST_ITEMS, Reason.MARKS}  # also in test_posts_cost.py
    assert {reason for _, reason, _ in BAD} | limits == set(Reason) - FROM_ELSEWHERE


def test_the_schema_of_dead_letters_lists_the_same_reasons() -> None:
    file = Path(__file__).parents[3] / "deploy/schemas/rejected-headers.json"
    listed = json.loads(file.read_text("utf-8"))["properties"]["reason"]["enum"]
    assert set(listed) == set(Reason)


def test_the_limit_on_size_is_exact() -> None:
    value = b'{"id": "1", "text": "x"}'
    assert isinstance(read_post(value, limits=Limits(post_bytes=len(value))), Post)
    found = rejected(value, limits=Limits(post_bytes=len(value) - 1))
    assert found == Rejected(Reason.POST_BYTES, "value: 24 bytes, more than 23")


def nested(levels: int) -> bytes:
    return b'{"id": "1", "text": "x", "z": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def test_the_limit_on_depth_is_exact_on_any_stack() -> None:
    def below(frames: int) -> None:
        if frames:
            return below(frames - 1)
        assert isinstance(read_post(nested(DEPTH)), Post)
        assert rejected(nested(DEPTH + 1)).reason is Reason.TOO_DEEP
        return None

    below(0)
    below(400)


def test_brackets_in_strings_and_in_rows_are_not_depth() -> None:
    many: dict[str, Any] = {"id": "1", "text": '[{"\\' * 500, "z": [[]] * 500}
    assert isinstance(read_post(json.dumps(many).encode()), Post)


@pytest.mark.parametrize(
    ("form", "name", "seen"),
    [
        ("plain", "bluesky_create", "bluesky"),
        ("plain", "x_enveloped", "x"),
        ("x", "bluesky_create", "bluesky"),
        ("x1", "mastodon_update_event", "mastodon"),
        ("mastodon", "x1_extended", "x1"),
    ],
)
def test_a_fixed_form_names_the_other_that_came(form: str, name: str, seen: str) -> None:
    value = next(example.value for example in EXAMPLES if example.name == name)
    told = f"value: is of the form {seen}, but posts.format is {form}"
    assert rejected(value, form) == Rejected(Reason.UNKNOWN_FORM, told)


def test_a_fixed_form_takes_what_auto_would_call_plain() -> None:
    value = b'{"id": "5", "text": "hi"}'
    for form in ("x", "x1"):
        outcome = read_post(value, form)
        assert isinstance(outcome, Post)
        assert outcome.platform == "x"
    assert rejected(value, "bluesky").reason is Reason.UNKNOWN_FORM
    assert rejected(value, "mastodon").reason is Reason.NO_TEXT


def test_bluesky_posts_without_their_address_have_no_id() -> None:
    event: dict[str, Any] = next(e.message for e in EXAMPLES if e.name == "bluesky_create")
    without_rkey = {**event, "commit": {**event["commit"], "rkey": ""}}
    assert rejected(json.dumps(without_rkey).encode()).detail == "commit.rkey: missing or empty"
    without_did = json.dumps({**event, "did": ""}).encode()
    assert rejected(without_did).reason is Reason.NO_ID
    without_record = {**event, "commit": {**event["commit"], "record": None}}
    assert rejected(json.dumps(without_record).encode()).reason is Reason.NO_TEXT


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"rkey": ""}, Reason.NO_ID),
        ({"did": None}, Reason.NO_ID),
        ({"record": None}, Reason.NO_TEXT),
        ({"record": {"text": 5}}, Reason.NO_TEXT),
        ({"record": []}, Reason.WRONG_TYPE),
        ({"did": 5}, Reason.WRONG_TYPE),
        ({"collection": {}}, Reason.WRONG_TYPE),
    ],
)
def test_a_bad_commit_inside_a_frame_of_v2(changed: dict[str, Any], reason: Reason) -> None:
    frame = next(e.message for e in EXAMPLES if e.name == "bluesky_second_create")
    value = json.dumps({**frame, "payload": frame["payload"] | changed}).encode()
    assert rejected(value).reason is reason
    assert rejected(value, "bluesky").reason is reason


@pytest.mark.parametrize(
    "frame", [{"$type": "message", "payload": None}, {"$type": "message", "payload": {}},
              {"$type": "error", "error": "Any"}],
)  # fmt: skip
def test_a_frame_of_v2_without_a_commit_is_passed_over(frame: dict[str, Any]) -> None:
    for form in ("auto", "bluesky"):
        assert read_post(json.dumps(frame).encode(), form) == PassedOver("no_post")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("{", Reason.BAD_JSON),
        ("", Reason.BAD_JSON),
        ('{"id": "1", "content": 7}', Reason.NO_TEXT),
        ('{"id": [], "content": "x"}', Reason.WRONG_TYPE),
        ('{"id": "1", "content": "x", "z": ' + DEEP.decode() + "}", Reason.TOO_DEEP),
        (r'{"id": "1", "content": "\ud800"}', Reason.LONE_SURROGATE),
    ],
)
def test_a_bad_payload_inside_a_good_event(payload: str, reason: Reason) -> None:
    event = json.dumps({"event": "update", "payload": payload}).encode()
    assert rejected(event).reason is reason
