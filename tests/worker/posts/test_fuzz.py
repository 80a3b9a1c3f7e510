"""Posts from random bytes: one of three outcomes, and the same post as a slow reader's."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.worker.messages import EXAMPLES, Example
from tests.worker.slow_posts import told
from worker.posts.read import FORMS, PassedOver, Post, Reason, Rejected, read_post

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


def check(value: bytes | None, form: str = "auto") -> Post | None:
    """Read a value, check what any outcome must be, and hand out the post."""
    outcome = read_post(value, form)
    if isinstance(outcome, Post):
        assert outcome.platform in PLATFORMS
        assert outcome.id.strip()
        assert outcome.text.strip()
        f"{outcome}".encode()  # no half of a surrogate pair
        return outcome
    if isinstance(outcome, PassedOver):
        assert outcome.why in ("no_post", "no_words")
        return None
    assert isinstance(outcome, Rejected)
    assert isinstance(outcome.reason, Reason)
    assert outcome.detail.isprintable()
    assert 0 < len(outcome.detail) <= 200
    return None


def is_json(value: bytes) -> bool:
    """Whether the standard library takes the value for JSON, as the RFC has it."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(value.decode(), parse_constant=refuse, parse_int=str)
    except ValueError:
        return False
    return True


@given(st.binary(max_size=200), st.sampled_from(FORMS))
def test_any_bytes_have_an_outcome(value: bytes, form: str) -> None:
    check(value, form)


@given(st.sampled_from(EXAMPLES), st.sampled_from(FORMS), st.data())
def test_damaged_messages_have_an_outcome(example: Example, form: str, data: st.DataObject) -> None:
    value = bytearray(example.value)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(value) - 1))
        if data.draw(st.booleans()):
            value[at] = data.draw(st.integers(0, 255))
        else:
            del value[at : at + data.draw(st.integers(1, 30))]
        value = value or bytearray(b" ")
    post = check(bytes(value), form)
    assert post is None or is_json(bytes(value))


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside a message."""
    inner = list(value.items()) if isinstance(value, dict) else []
    inner = list(enumerate(value)) if isinstance(value, list) else inner
    return [*([path] if path else []), *(way for k, v in inner for way in paths(v, (*path, k)))]


def changed(message: dict[str, Any], path: tuple[Any, ...], new: object) -> dict[str, Any]:
    """The message with another value in one place."""
    message = copy.deepcopy(message)
    holder: Any = message
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = new
    return message


def agrees(post: Post, form: str, message: dict[str, Any]) -> None:
    """The post is what the slow reader reads; white space may differ where there was HTML."""
    id, text, author = told(form, message)
    assert (post.id, post.author) == (id, author)
    if form == "mastodon":
        assert post.text.split() == text.split()
    else:
        assert post.text == text


@given(st.sampled_from(POSTS), JSON, st.data())
def test_a_message_with_one_value_changed_reads_like_the_slow_reader(
    example: Example, new: Any, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(paths(example.message)))
    message = changed(example.message, path, new)
    post = check(json.dumps(message).encode(), example.form)
    if post is not None:
        agrees(post, example.form, message)
    check(json.dumps(message).encode())


ANY_TEXT = st.text(min_size=1).filter(str.strip)


@given(st.integers(0, 2**64) | ANY_TEXT, ANY_TEXT)
def test_plain_posts_keep_id_and_text(id: int | str, text: str) -> None:
    for ascii_only in (True, False):
        value = json.dumps({"id": id, "text": text}, ensure_ascii=ascii_only).encode()
        assert read_post(value) == Post(str(id), "plain", text)
