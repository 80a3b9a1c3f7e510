import gc
import html
import json
import re
from datetime import UTC, datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.hostile.costly_posts import SHAPES
from tests.worker.sample_messages import EXAMPLES, Example
from worker.config import FORMATS
from worker.config.limits import DEFAULT_LIMITS, Limits
from worker.json_outline import MAX_DEPTH, json_outline, longest_list_length, max_nesting
from worker.posts.attachments import MAX_PICTURES
from worker.posts.languages import Languages
from worker.posts.mastodon import MAX_HTML_CHARS, html_text
from worker.posts.read import PassedOver, Post, Reason, Rejected, read_post
from worker.posts.times import FIRST_MS, LAST_MS, milliseconds, rfc3339, utc


def rejected(value: bytes | None, form: str = "auto", limits: Limits = DEFAULT_LIMITS) -> Rejected:
    outcome = read_post(value, form, limits)
    assert isinstance(outcome, Rejected), outcome
    return outcome


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_example_is_read_as_its_file_says(example: Example) -> None:
    for ascii_only in (True, False):
        value = json.dumps(example.message, ensure_ascii=ascii_only).encode()
        for result in (read_post(value), read_post(value, example.form)):
            expected = {key: value for key, value in example.expected.items() if value is not None}
            assert json.loads(msgspec.json.encode(result)) == expected


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("value", [b"\r\n", b"\n", b"\r\n\r\n"])
def test_a_keep_alive_is_passed_over(form: str, value: bytes) -> None:
    assert read_post(value, form) == PassedOver("no_post")


DEEP = b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)
BAD: list[tuple[bytes | None, Reason, str]] = [
    (None, Reason.EMPTY_VALUE, "value: null"),
    (b"", Reason.EMPTY_VALUE, "value: empty"),
    (b'{"id": "1", "text": "cut', Reason.BAD_JSON, "value: Input data was truncated"),
    (b'{"id": "1", "text": "x", "n": NaN}', Reason.BAD_JSON, "value: "),
    (b'\xef\xbb\xbf{"id": "1", "text": "x"}', Reason.BAD_JSON, "value: "),
    ('{"id": "1", "text": "x"}'.encode("utf-16"), Reason.INVALID_UTF8, "at byte 1"),
    (b'{"id": "1", "text": "caf\xe9"}', Reason.INVALID_UTF8, "at byte 25"),
    (rb'{"id": "1", "text": "\ud83d"}', Reason.LONE_SURROGATE, r"\ud83d at byte 22"),
    (rb'{"id": "1", "text": "x", "ignored": ["\uD800"]}', Reason.LONE_SURROGATE, r"\uD800"),
    (rb'{"id": "1", "text": "\\ud83d", oops}', Reason.BAD_JSON, "value: "),
    (DEEP, Reason.TOO_DEEP, f"deeper than {MAX_DEPTH}"),
    (b'{"id": "1", "text": "x", "ignored": ' + DEEP + b"}", Reason.TOO_DEEP, "deeper"),
    (b'{"a":' * 99_999, Reason.TOO_DEEP, "deeper"),
    (b"[1]", Reason.WRONG_TYPE, "value: expected an object, found an array"),
    (b'{"id": 1.5, "text": "x"}', Reason.WRONG_TYPE, "id: expected an integer or a string"),
    (b'{"id": ' + b"9" * 5000 + b', "text": "x"}', Reason.WRONG_TYPE, "id: integer value out of"),
    (b'{"id": "1", "text": "x", "lang": ["en"]}', Reason.WRONG_TYPE, "lang: expected a string"),
    (b'{"id": null, "text": null}', Reason.NO_TEXT, "text: missing"),
    (b'{"id": "1"}', Reason.NO_TEXT, "text: missing"),
    (b'{"id": "1", "text": 5}', Reason.NO_TEXT, "text: expected a string or null, found an int"),
    (b"{}", Reason.UNKNOWN_FORM, "no known form: none"),
    (b'{"bericht": "x", "a\\u001b[31m": 1}', Reason.UNKNOWN_FORM, "form: bericht, a�[31m"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "reason", "message"), BAD, ids=range(len(BAD)))
def test_a_bad_value_is_rejected_with_its_reason(
    value: bytes | None, reason: Reason, message: str
) -> None:
    result = rejected(value)
    assert (result.reason, message in result.detail) == (reason, True), result
    assert result.detail.isprintable()
    assert len(result.detail) <= 200


@pytest.mark.parametrize(
    "key", [b"", b'"id": null, ', b'"id": "", ', b'"id": " \\n", ', b'"k": 1, ']
)
def test_a_plain_post_without_an_id_is_named_by_its_text(key: bytes) -> None:
    post = read_post(b"{" + key + b'"text": "abc"}')
    assert isinstance(post, Post)
    assert post.id == "sha256:ba7816bf8f01cfea"  # FIPS 180-2's example


def with_list(items: int) -> bytes:
    return b'{"id": "1", "text": "a", "unread": [[' + b",".join([b"1"] * items) + b"]]}"


def marked(count: int) -> bytes:
    return json.dumps({"id": "1", "text": "na" + "\u0301" * count}).encode()


def packed(value: bytes) -> bytes:
    return json.dumps({"event": "update", "payload": value.decode()}).encode()


@pytest.mark.parametrize(
    ("good", "bad", "limits", "reason"),
    [
        (b'{"id": "1", "text": "x"}', b'{"id": "1", "text": "xy"}', Limits(post_bytes=24),
         Reason.POST_BYTES),
        (with_list(10_000), with_list(10_001), DEFAULT_LIMITS, Reason.LIST_ITEMS),
        (with_list(10_000), packed(with_list(10_001)), DEFAULT_LIMITS, Reason.LIST_ITEMS),
        (marked(30), marked(31), DEFAULT_LIMITS, Reason.MARKS),
        (marked(31), marked(32), Limits(marks=31), Reason.MARKS),
    ],
    ids=["bytes", "items", "packed items", "marks", "configured marks"],
)  # fmt: skip
def test_limits_are_exact(good: bytes, bad: bytes, limits: Limits, reason: Reason) -> None:
    assert isinstance(read_post(good, limits=limits), Post)
    assert rejected(bad, limits=limits).reason is reason


def nested(levels: int) -> bytes:
    return b'{"id": "1", "text": "x", "z": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def test_the_limit_on_depth_is_exact() -> None:
    def below(frames: int) -> None:
        if frames:
            return below(frames - 1)
        assert isinstance(read_post(nested(MAX_DEPTH)), Post)
        assert rejected(nested(MAX_DEPTH + 1)).reason is Reason.TOO_DEEP
        return None

    below(0)
    below(400)


@pytest.mark.parametrize(
    ("form", "name", "seen"),
    [("plain", "bluesky_create", "bluesky"), ("mastodon", "x1_extended", "x1")],
)
def test_another_form_than_the_configured_one_is_named(form: str, name: str, seen: str) -> None:
    value = next(example.value for example in EXAMPLES if example.name == name)
    detail = f"value: is of the form {seen}, but posts.format is {form}"
    assert rejected(value, form) == Rejected(Reason.UNKNOWN_FORM, detail)


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
    ("<ul><li>one</li><li>two</li></ul>end", "one\ntwo\n\nend"),
    ('<a href="x" title="a > b">shown</a>', "shown"),
    ("<script>x</script", "x</script"),
    ("&#xD800;&#0;", "\ufffd\ufffd"),
    (f"&#{'1' * 5000};&#x{'1' * 5000};", "\ufffd\ufffd"),
    ("a" * MAX_HTML_CHARS + "b", "a" * MAX_HTML_CHARS),
]


@pytest.mark.parametrize(("markup", "text"), MARKUP)
def test_markup_becomes_text(markup: str, text: str) -> None:
    assert html_text(markup) == text


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


class Visible(HTMLParser):
    """The characters of an HTML text, with line ends where a browser breaks lines."""

    text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.text += "\n" if tag in ("p", "br", "li", "ul", "blockquote") else ""

    def handle_endtag(self, tag: str) -> None:
        self.text += "\n" if tag in ("p", "ul", "blockquote") else ""

    def handle_data(self, data: str) -> None:
        self.text += data


@given(TREE)
def test_markup_reads_like_a_parser(markup: str) -> None:
    parser = Visible()
    parser.feed(markup)
    parser.close()
    assert html_text(markup).split() == parser.text.split()


TIMES = [
    ("2024-05-13T08:15:42.000Z", "2024-05-13T08:15:42.000Z"),
    ("2024-05-13T08:15:42+02:00", "2024-05-13T06:15:42Z"),
    ("2024-05-13 08:15:42.5-0130", "2024-05-13T09:45:42.500000Z"),
    ("Wed Oct 10 20:19:24 +0200 2018", "2018-10-10T18:19:24Z"),
    ("Wed Okt 10 20:19:24 +0000 2018", None),
    ("2024-05-13T08:15:42", "2024-05-13T08:15:42Z"),
    ("0001-01-01T00:00:00+05:00", None),
    ("28.11.2026 18:00", "2026-11-28T18:00:00Z"),
    ("1.2.2026, 8:05:09", "2026-02-01T08:05:09Z"),
    ("31.11.2026 18:00", None),
    ("28.11.26 18:00", None),
    (None, None),
    (1539202764, "2018-10-10T20:19:24Z"),
    (1539202764000, "2018-10-10T20:19:24Z"),
]


@pytest.mark.parametrize(("written", "expected"), TIMES)
def test_times_become_rfc3339(written: str | float | None, expected: str | None) -> None:
    assert utc(written) == expected


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)), st.integers(-14 * 60, 14 * 60))
def test_a_converted_time_is_the_same_moment(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    text = utc(zoned.isoformat())
    assert text is not None
    assert datetime.fromisoformat(text) == zoned
    assert text.endswith("Z")
    since = zoned - datetime(1970, 1, 1, tzinfo=UTC)
    assert abs(milliseconds(text) - since / timedelta(milliseconds=1)) < 1


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
SOME_KEYS = st.dictionaries(
    st.sampled_from(["id", "text", "author", "created_at", "lang", "url", "content", "extra"]),
    SCALARS | st.text(min_size=1) | st.lists(SCALARS, max_size=2),
)


@given(SOME_KEYS, st.sampled_from(FORMATS), st.booleans())
@example({"id": "1", "text": "words", "lang": "fr"}, "plain", False)
@example({"id": "1", "text": "a" + 31 * "\u0301"}, "auto", True)
def test_plain_posts_are_read_the_same_when_a_space_hides_their_usual_start(
    message: dict[str, object], form: str, ascii_only: bool
) -> None:
    ordered = {key: message[key] for key in ("id", "text") if key in message} | message
    value = json.dumps(ordered, ensure_ascii=ascii_only).encode("utf-8", "replace")
    langs = Languages.parse("en")
    assert read_post(value, form, langs=langs) == read_post(b" " + value, form, langs=langs)


SECOND_COMMIT_TYPE = "network.bsky.jetstream.subscribeEvents#commit"
COMMIT_KEYS = {
    "$type": st.sampled_from([SECOND_COMMIT_TYPE, "network.bsky.jetstream.subscribeEvents#sync"]),
    "did": st.sampled_from(["did:plc:w", ""]) | SCALARS,
    "operation": st.sampled_from(["create", "delete"]) | SCALARS,
    "type": st.sampled_from(["c", "d"]) | SCALARS,
    "collection": st.sampled_from(["app.bsky.feed.post", "app.bsky.feed.like"]) | SCALARS,
    "rkey": st.just("3l3qo2vuowo2b") | SCALARS,
    "record": SCALARS | st.fixed_dictionaries({}, optional={
        "text": st.just("words") | SCALARS | st.lists(SCALARS, max_size=1),
        "createdAt": st.just("2024-09-09T19:46:02.102Z") | SCALARS,
        "langs": st.lists(st.sampled_from(["fr", "en"]) | SCALARS, max_size=2) | SCALARS,
        "embed": st.lists(SCALARS, max_size=1),
    }),
}  # fmt: skip
COMMITS = st.fixed_dictionaries({}, optional=COMMIT_KEYS) | SCALARS
USUAL_COMMIT = {
    "$type": SECOND_COMMIT_TYPE, "did": "did:plc:w", "operation": "create",
    "collection": "app.bsky.feed.post", "rkey": "3l3", "record": {"text": "words", "langs": ["en"]},
}  # fmt: skip
EVENTS = st.fixed_dictionaries({"did": st.just("did:plc:w") | SCALARS}, optional={
    "kind": st.just("commit") | SCALARS, "time_us": st.integers(), "commit": COMMITS,
    "identity": SCALARS, "text": SCALARS,
}) | st.fixed_dictionaries({"$type": st.just("message") | SCALARS}, optional={
    "payload": COMMITS, "error": SCALARS, "did": SCALARS, "kind": SCALARS,
})  # fmt: skip


@given(EVENTS, st.sampled_from(FORMATS), st.booleans())
@example({"did": "did:plc:w", "kind": "commit", "commit": USUAL_COMMIT}, "auto", False)
@example({"$type": "message", "payload": USUAL_COMMIT}, "bluesky", True)
def test_events_of_bluesky_are_read_the_same_when_a_space_hides_their_usual_start(
    message: dict[str, object], form: str, compact: bool
) -> None:
    value = json.dumps(message, separators=(",", ":") if compact else None).encode()
    langs = Languages.parse("en")
    assert read_post(value, form, langs=langs) == read_post(b" " + value, form, langs=langs)


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
    signs = json_outline(json.dumps(value, ensure_ascii=ascii_only).encode())
    assert max_nesting(signs) == slow_depth(value)
    result = longest_list_length(signs)
    assert (result if result > 1 else 0) == (slow if (slow := slow_longest(value)) > 1 else 0)


def test_the_page_explains_every_form_and_reason() -> None:
    page = (Path(__file__).parents[3] / "docs" / "posts.md").read_text("utf-8")
    first_cells = re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)
    assert [*FORMATS[1:], *Reason] == first_cells


EN = Languages.parse("en")
PARTS = st.sampled_from(["en", "EN", "de", "pt", "BR", "GB", "zh", "Hant", "eng"])
TAGS = st.lists(PARTS, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from("-_").map(lambda mark: mark.join(parts))
)


def bluesky(*langs: str) -> bytes:
    (example,) = (each for each in EXAMPLES if each.name == "bluesky_create")
    message = json.loads(json.dumps(example.message))
    message["commit"]["record"]["langs"] = list(langs)
    return json.dumps(message).encode()


def spelled(tag: str) -> list[str]:
    return tag.lower().replace("_", "-").split("-")


@given(st.lists(TAGS, min_size=1, max_size=3), TAGS)
def test_a_language_range_matches_its_prefix(required: list[str], named: str) -> None:
    parts = spelled(named)
    expected = any(spelled(tag) == parts[: len(spelled(tag))] for tag in required)
    assert Languages.parse(" , ".join(required)).accepts(named) == expected


@pytest.mark.parametrize(
    ("required", "named", "expected"),
    [
        *(("en", named, True) for named in (None, "", "und", "UND", "zxx", "mul", "qme", "-")),
        *(("en", named, False) for named in ("de", "eng", "english", "e", "fr-en", "x" * 10**6)),
        (None, "de", True),
        ("", "de", True),
        ("en, pt_BR", "pt-br", True),
    ],
)
def test_other_languages_are_passed_over_and_unknown_ones_kept(
    required: str | None, named: str | None, expected: bool
) -> None:
    assert Languages.parse(required).accepts(named) == expected


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_language_of_every_form_decides(example: Example) -> None:
    value: bytes = json.dumps(example.message).encode()
    result: Any = read_post(value)
    if not isinstance(result, Post) or result.lang is None:
        assert read_post(value, langs=Languages.parse("tlh")) == result
    else:
        assert read_post(value, langs=Languages.parse(result.lang)) == result
        assert read_post(value, langs=Languages.parse("tlh")) == PassedOver("other_language")


def test_of_several_languages_one_is_enough() -> None:
    for langs, expected in ((EN, "en-GB"), (Languages.parse(None), "de")):
        result = read_post(bluesky("de", "en-GB"), langs=langs)
        assert isinstance(result, Post)
        assert result.lang == expected
    assert read_post(bluesky("de", "fr"), langs=EN) == PassedOver("other_language")
    assert isinstance(read_post(bluesky(), langs=EN), Post)


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_timestamp_of_a_record_can_be_written(milliseconds: int) -> None:
    text = rfc3339(milliseconds)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    if milliseconds > LAST_MS:
        assert text == "9999-12-31T23:59:59.999Z"
    if milliseconds < FIRST_MS:
        assert text == "0001-01-01T00:00:00.000Z"
    if FIRST_MS <= milliseconds <= LAST_MS:
        seconds = (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
        assert round(seconds * 1000) == milliseconds


def test_a_content_warning_of_mastodon_is_cut() -> None:
    value = json.dumps({"id": "1", "content": "<p>flood</p>", "spoiler_text": "w" * 900_000,
                        "uri": "https://m.example/1", "account": {"acct": "a"}})  # fmt: skip
    post = read_post(value.encode(), "mastodon")
    assert isinstance(post, Post)
    assert post.text == "w" * 8192 + "\n\nflood"


def test_each_picture_of_a_tweet_is_described_once_and_blank_ones_take_no_place() -> None:
    blank, named = [f"b{n}" for n in range(30)], [f"n{n}" for n in range(30)]
    words = dict.fromkeys(blank, " ") | {key: f"{' ' * 5000}{key} " for key in named}
    media = [{"media_key": key, "alt_text": text} for key, text in words.items()]
    keys = [*blank, "n0", "n0", 7, *named]
    message = {
        "data": {"id": "1", "text": "x", "attachments": {"media_keys": keys}},
        "includes": {"media": [*media, {"media_key": "none"}]},
    }
    post = read_post(json.dumps(message).encode())
    assert isinstance(post, Post)
    assert post.alt == (*named[:MAX_PICTURES],)


@pytest.mark.parametrize("shape", ["alt_lists", "title_lists"])
def test_lists_where_a_text_should_stand_are_not_built(shape: str) -> None:
    """The garbage collector would walk through all that the worker holds, again and again."""
    value = SHAPES[shape](900_000)

    def collections() -> int:
        return sum(generation["collections"] for generation in gc.get_stats())

    before = collections()
    assert isinstance(read_post(value), Post)
    assert collections() - before < 10
