import copy
import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.sample_messages import EXAMPLES, Example
from worker.config.limits import DEFAULT_LIMITS
from worker.posts.checks import refusal
from worker.posts.languages import ALL_LANGUAGES
from worker.posts.read import (
    PassedOver,
    Post,
    Reason,
    Rejected,
    _read_form,
    read_plain_lines,
    read_post,
)

PLATFORMS = {"x", "bluesky", "mastodon", "plain"}
POSTS = [example for example in EXAMPLES if "text" in example.expected]
KEYS = sorted({key for example in EXAMPLES for key in example.message} | {"id", "text", "lang"})
WORDS = st.text(st.characters(exclude_characters="<&", exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | WORDS, inner, max_size=3)
    ),
    max_leaves=8,
)


def check(value: bytes | None, form: str = "auto") -> None:
    """Read a value, and check what any outcome must be."""
    outcome = read_post(value, form)
    if isinstance(outcome, Post):
        assert outcome.platform in PLATFORMS
        assert outcome.id.strip()
        assert outcome.text.strip() or outcome.alt or outcome.card or outcome.links
        msgspec.json.encode(outcome).decode()  # no half of a surrogate pair
    elif isinstance(outcome, PassedOver):
        assert outcome.why in ("no_post", "no_words")
    else:
        assert isinstance(outcome, Rejected)
        assert isinstance(outcome.reason, Reason)
        assert outcome.detail.isprintable()
        assert 0 < len(outcome.detail) <= 200


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = list(value.items()) if isinstance(value, dict) else []
    inner = list(enumerate(value)) if isinstance(value, list) else inner
    return [*([path] if path else []), *(way for k, v in inner for way in paths(v, (*path, k)))]


def changed(message: dict[str, Any], path: tuple[Any, ...], new: object) -> dict[str, Any]:
    message = copy.deepcopy(message)
    holder: Any = message
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = new
    return message


@given(st.sampled_from(POSTS), JSON, st.data())
def test_a_message_with_one_value_changed_is_read_or_refused(
    example: Example, new: Any, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(paths(example.message)))
    value = json.dumps(changed(example.message, path, new)).encode()
    check(value, example.form)
    check(value)


ANY_TEXT = st.text(min_size=1).filter(str.strip)


@given(st.integers(0, 2**64) | ANY_TEXT, ANY_TEXT)
def test_plain_posts_keep_id_and_text(id: int | str, text: str) -> None:
    for ascii_only in (True, False):
        value = json.dumps({"id": id, "text": text}, ensure_ascii=ascii_only).encode()
        assert read_post(value) == Post(str(id), "plain", text)


PLAIN_KEYS = st.sampled_from(["id", "text", "author", "created_at", "lang", "url"])
PLAIN_VALUES = st.one_of(
    WORDS.map(json.dumps),
    st.none().map(json.dumps),
    st.integers().map(json.dumps),
    st.sampled_from([
        "1.5", "1e400", "true", "[]", "{}", '"\\ud800"', '"\\u0000"', '"\xe9"', "1" * 5000, '"[{"',
        '"2020-01-01T00:00:00Z"', "1577836800", "NaN", '"\x01"',
    ]),
)  # fmt: skip


PIECES = [
    b'{"id": "1", "text": "a"}', b'{"id": "2"', b'"text": "b"}', b'{"id": "3",',
    b'{"id": "4", "lang":', b'"en", "text": "c"}', b"", b" ", b"\n", b"\r", b"null",
]  # fmt: skip


@st.composite
def plain_values(draw: st.DrawFn) -> bytes:
    """An object with keys of a plain post and others, or a piece or several of such objects."""
    if draw(st.integers(0, 3)) == 0:
        return b"".join(draw(st.lists(st.sampled_from(PIECES), max_size=3)))
    first, last = draw(st.sampled_from(["id", "text"])), draw(PLAIN_VALUES)
    keys = PLAIN_KEYS | st.sampled_from(KEYS)
    rest = draw(st.lists(st.tuples(keys, PLAIN_VALUES), max_size=5))
    pairs = ",".join(f'"{key}": {part}' for key, part in [(first, last), *rest])
    end = draw(st.sampled_from(["}", "}", "}", " }", "}\n", "}}", ""]))
    return f"{{{pairs}{end}".encode(draw(st.sampled_from(["utf-8", "latin-1"])), "replace")


@given(st.lists(plain_values(), min_size=1, max_size=4))
def test_the_quick_reader_of_plain_posts_reads_like_the_other(values: list[bytes]) -> None:
    if (outcomes := read_plain_lines(values, 2**20)) is None:
        return
    assert len(outcomes) == len(values)
    for value, outcome in zip(values, outcomes, strict=True):
        general = refusal(value, DEFAULT_LIMITS) or _read_form(
            value, "auto", DEFAULT_LIMITS, ALL_LANGUAGES
        )
        assert outcome == general


def test_plain_posts_are_read_together_up_to_a_limit_of_bytes() -> None:
    values = [b'{"id": "%d", "text": "a b"}' % n for n in range(3)]
    size = len(b"\n".join(values))
    assert read_plain_lines(values, size) == [Post(str(n), "plain", "a b") for n in range(3)]
    assert read_plain_lines(values, size - 1) is None
    assert read_plain_lines([*values, None], 2 * size) is None
    assert read_plain_lines([values[0] + b"\n" + values[1], values[2]], 2 * size) is None
