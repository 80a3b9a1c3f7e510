"""Posts from bytes: every form by example files, and every reason to reject one."""

import html
import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.messages import EXAMPLES, Example
from tests.worker.slow_posts import visible
from worker.config.limits import DEFAULT_LIMITS, Limits
from worker.match.records import VALUELESS
from worker.posts.checks import DEPTH, depth, longest_list, outline
from worker.posts.mastodon import LONGEST, spoken
from worker.posts.read import FORMS, PassedOver, Post, Reason, Rejected, read_post
from worker.posts.times import milliseconds, utc


def rejected(value: bytes | None, form: str = "auto", limits: Limits = DEFAULT_LIMITS) -> Rejected:
    outcome = read_post(value, form, limits)
    assert isinstance(outcome, Rejected), outcome
    return outcome


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_example_is_read_as_its_file_says(example: Example) -> None:
    for ascii_only in (True, False):
        value = json.dumps(example.message, ensure_ascii=ascii_only).encode()
        for found in (read_post(value), read_post(value, example.form)):
            assert msgspec.structs.asdict(found) == example.expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [b"\r\n", b"\n", b"\r\n\r\n"])
def test_a_keep_alive_is_passed_over(form: str, value: bytes) -> None:
    assert read_post(value, form) == PassedOver("no_post")


DEEP = b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1)
BAD: list[tuple[bytes | None, Reason, str]] = [
    (None, Reason.EMPTY_VALUE, "value: null"),
    (b"", Reason.EMPTY_VALUE, "value: empty"),
    (b"   ", Reason.BAD_JSON, "value: "),
    (b'{"id": "1", "text": "cut', Reason.BAD_JSON, "value: Input data was truncated"),
    (b'{"id": "1", "text": "x"} {', Reason.BAD_JSON, "trailing"),
    (b'{"id": "1", "text": "x", "n": NaN}', Reason.BAD_JSON, "value: "),
    (b'{"id": "1", "text": "a\x00b"}', Reason.BAD_JSON, "value: "),
    (b'\xef\xbb\xbf{"id": "1", "text": "x"}', Reason.BAD_JSON, "value: "),
    ('{"id": "1", "text": "x"}'.encode("utf-16"), Reason.INVALID_UTF8, "at byte 1"),
    (b'{"id": "1", "text": "caf\xe9"}', Reason.INVALID_UTF8, "at byte 25"),
    (b'{"id": "1", "text": "x", "ignored": "\xed\xa0\x80"}', Reason.INVALID_UTF8, "byte 38"),
    (rb'{"id": "1", "text": "\ud83d"}', Reason.LONE_SURROGATE, r"\ud83d at byte 22"),
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
    (b'{"id": ' + b"9" * 5000 + b', "text": "x"}', Reason.WRONG_TYPE, "id: integer value out of"),
    (b'{"data": {"id": ' + b"9" * 20 + b', "text": "x"}}', Reason.WRONG_TYPE, "data.id: expected"),
    (b'{"id_str": "1", "id": ' + b"9" * 4200 + b"}", Reason.WRONG_TYPE, "id: expected `int` <= 9"),
    (b'{"id": "1", "text": "x", "lang": ["en"]}', Reason.WRONG_TYPE, "lang: expected a string"),
    (b'{"text": "x"}', Reason.NO_ID, "id: missing"),
    (b'{"id": "", "text": "x"}', Reason.NO_ID, "id: empty"),
    (b'{"id": " \\n", "text": "x"}', Reason.NO_ID, "id: empty"),
    (b'{"id_str": "", "full_text": "x"}', Reason.NO_ID, "id: missing"),
    (b'{"id": "1"}', Reason.NO_TEXT, "text: missing"),
    (b'{"id": "1", "text": 5}', Reason.NO_TEXT, "text: expected a string or null, found an int"),
    (b"{}", Reason.UNKNOWN_FORM, "no known form: none"),
    (b'{"bericht": "x", "a\\u001b[31m": 1}', Reason.UNKNOWN_FORM, "form: bericht, a�[31m"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "reason", "said"), BAD, ids=range(len(BAD)))
def test_a_bad_value_is_rejected_with_its_reason(
    value: bytes | None, reason: Reason, said: str
) -> None:
    found = rejected(value)
    assert (found.reason, said in found.detail) == (reason, True), found
    assert found.detail.isprintable()
    assert len(found.detail) <= 200


def test_the_limit_on_size_is_exact() -> None:
    value = b'{"id": "1", "text": "x"}'
    assert isinstance(read_post(value, limits=Limits(post_bytes=len(value))), Post)
    found = rejected(value, limits=Limits(post_bytes=len(value) - 1))
    assert found == Rejected(Reason.POST_BYTES, "value: 24 bytes, more than 23")


def with_list(items: int) -> bytes:
    return b'{"id": "1", "text": "a", "unread": [[' + b",".join([b"1"] * items) + b"]]}"


def test_the_limit_on_items_is_exact_in_lists_that_are_not_read_too() -> None:
    assert isinstance(read_post(with_list(10_000)), Post)
    found = read_post(with_list(10_001))
    assert found == Rejected(Reason.LIST_ITEMS, "value: a list has 10001 items, more than 10000")
    packed = json.dumps({"event": "update", "payload": with_list(10_001).decode()}).encode()
    assert read_post(packed) == found


def test_the_limit_on_combining_marks_is_exact() -> None:
    def marked(count: int) -> bytes:
        return json.dumps(
            {"id": "1", "text": "na" + "\u0301\U0001d165" * (count // 2) + "!"}
        ).encode()

    assert isinstance(read_post(marked(30)), Post)
    found = read_post(marked(32))
    told = "text: a letter has 32 combining marks, more than 30"
    assert found == Rejected(Reason.MARKS, told)
    assert isinstance(read_post(marked(32), limits=Limits(marks=32)), Post)


def nested(levels: int) -> bytes:
    return b'{"id": "1", "text": "x", "z": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def test_the_limit_on_depth_is_exact() -> None:
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
def test_another_form_than_the_configured_one_is_named(form: str, name: str, seen: str) -> None:
    value = next(example.value for example in EXAMPLES if example.name == name)
    told = f"value: is of the form {seen}, but posts.format is {form}"
    assert rejected(value, form) == Rejected(Reason.UNKNOWN_FORM, told)


def test_a_configured_form_decides_where_auto_would_guess_plain() -> None:
    value = b'{"id": "5", "text": "hi"}'
    for form in ("x", "x1"):
        outcome = read_post(value, form)
        assert isinstance(outcome, Post)
        assert outcome.platform == "x"
    assert rejected(value, "bluesky").reason is Reason.UNKNOWN_FORM
    assert rejected(value, "mastodon").reason is Reason.NO_TEXT


@pytest.mark.parametrize("version", [1, 2])
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
def test_a_bad_bluesky_commit_is_rejected(
    version: int, changed: dict[str, Any], reason: Reason
) -> None:
    name = "bluesky_create" if version == 1 else "bluesky_second_create"
    frame = next(e.message for e in EXAMPLES if e.name == name)
    if version == 1 and "did" in changed:
        frame = frame | changed
    else:
        key = "commit" if version == 1 else "payload"
        frame = frame | {key: frame[key] | changed}
    for form in ("auto", "bluesky"):
        assert rejected(json.dumps(frame).encode(), form).reason is reason


@pytest.mark.parametrize(
    "frame", [{"$type": "message", "payload": None}, {"$type": "message", "payload": {}},
              {"$type": "error", "error": "Any"}],
)  # fmt: skip
def test_a_bluesky_frame_without_a_commit_is_passed_over(frame: dict[str, Any]) -> None:
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
def test_a_bad_payload_of_a_mastodon_event_is_rejected(payload: str, reason: Reason) -> None:
    event = json.dumps({"event": "update", "payload": payload}).encode()
    assert rejected(event).reason is reason


MARKUP = [
    ("plain words", "plain words"),
    ("<p>one</p><p>two</p>", "one\n\ntwo"),
    ("<p>one<br>two<br/>three<br />four</p>", "one\ntwo\nthree\nfour"),
    ("a &lt;b&gt; &amp;amp; &eacute; &#128512;", "a <b> &amp; é 😀"),
    ("I <3 you & 2 < 3", "I <3 you & 2 < 3"),
    ("<ul><li>one</li><li>two</li></ul>end", "one\ntwo\n\nend"),
    ('<a href="x" title="a > b">shown</a>', "shown"),
    ("ex<strong>treme</strong>ly", "extremely"),
    ("<script>x</script", "x</script"),
    ("<!-- hidden -->seen", "seen"),
    ("&#xD800;&#0;", "\ufffd\ufffd"),
    (f"&#{'1' * 5000};&#x{'1' * 5000};", "\ufffd\ufffd"),
    ("a" * LONGEST + "b", "a" * LONGEST),
]


@pytest.mark.parametrize(("markup", "text"), MARKUP)
def test_markup_becomes_text(markup: str, text: str) -> None:
    assert spoken(markup) == text


WORD = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=8)
TREE = st.recursive(
    WORD.map(html.escape),
    lambda inner: st.tuples(
        st.sampled_from(["p", "span", "a", "em", "li", "ul", "blockquote"]),
        st.lists(inner, max_size=4),
        st.sampled_from(["", ' class="invisible"', " href='x?a=1&amp;b=\"'"]),
    ).map(lambda t: f"<{t[0]}{t[2]}>{' '.join(t[1])}<br /></{t[0]}>"),
    max_leaves=12,
)


@given(TREE)
def test_markup_reads_like_a_parser(markup: str) -> None:
    assert spoken(markup).split() == visible(markup).split()


TIMES = [
    ("2024-05-13T08:15:42.000Z", "2024-05-13T08:15:42.000Z"),
    ("2024-05-13T08:15:42.123456789Z", "2024-05-13T08:15:42.123456789Z"),
    ("2024-05-13T08:15:42+02:00", "2024-05-13T06:15:42Z"),
    ("2024-05-13 08:15:42.5-0130", "2024-05-13T09:45:42.500000Z"),
    ("Wed Oct 10 20:19:24 +0200 2018", "2018-10-10T18:19:24Z"),
    ("Wed Okt 10 20:19:24 +0000 2018", None),
    ("2024-05-13T08:15:42", "2024-05-13T08:15:42Z"),
    ("0001-01-01T00:00:00+05:00", None),
    ("9999-12-31T23:59:59-05:00", None),
    ("yesterday", None),
    ("", None),
    (None, None),
    (1539202764, "2018-10-10T20:19:24Z"),
    (1539202764000, "2018-10-10T20:19:24Z"),
    (1e300, None),
]


@pytest.mark.parametrize(("written", "told"), TIMES)
def test_times_become_rfc3339(written: str | float | None, told: str | None) -> None:
    assert utc(written) == told


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)),
    st.integers(-14 * 60, 14 * 60),
)
def test_a_converted_time_is_the_same_moment(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    told = utc(zoned.isoformat())
    assert told is not None
    assert datetime.fromisoformat(told) == zoned
    assert told.endswith("Z")
    since = zoned - datetime(1970, 1, 1, tzinfo=UTC)
    assert abs(milliseconds(told) - since / timedelta(milliseconds=1)) < 1


def slow_depth(value: object) -> int:
    """How many objects and arrays stand inside each other."""
    inner = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    )
    return 0 if inner is None else 1 + max(map(slow_depth, inner), default=0)


TANGLE = st.recursive(
    st.text('ab[]{}"\\,', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text('[{"\\', max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


def slow_longest(value: object) -> int:
    """The items of the longest list, at any depth."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = len(value) if isinstance(value, list) else 0
    return max([own, *map(slow_longest, inner)])


@given(TANGLE, st.booleans())
def test_depth_and_longest_list_are_those_of_a_slow_walk(value: object, ascii_only: bool) -> None:
    signs = outline(json.dumps(value, ensure_ascii=ascii_only).encode())
    assert depth(signs) == slow_depth(value)
    found = longest_list(signs)
    assert (found if found > 1 else 0) == (slow if (slow := slow_longest(value)) > 1 else 0)


@given(st.binary(max_size=40) | st.text('[]{},"\\', max_size=40).map(str.encode))
def test_any_bytes_have_an_outline(value: bytes) -> None:
    signs = outline(value)
    assert 0 <= depth(signs) <= len(value)
    assert 0 <= longest_list(signs) <= len(value) + 1


PAGE = (Path(__file__).parents[3] / "docs" / "posts.md").read_text("utf-8")
FIRST_CELLS = re.findall(r"^\| `([\w.]+)` \|", PAGE, re.MULTILINE)


def test_the_page_explains_every_form_and_reason() -> None:
    assert [*FORMS[1:], *Reason] == FIRST_CELLS


def test_the_page_states_the_limits() -> None:
    assert f"more than {DEPTH} deep" in PAGE
    kept_without_value = re.findall(r"^\| `([\w.]+)` \| .*is not kept \|$", PAGE, re.MULTILINE)
    assert kept_without_value == list(VALUELESS)


def test_the_example_of_the_page_is_a_post() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert isinstance(read_post(example.encode()), Post)
