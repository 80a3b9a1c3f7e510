import copy
import json
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.worker.sample_messages import EXAMPLES, Example
from worker.config.limits import DEFAULT_LIMITS
from worker.posts.checks import refusal
from worker.posts.languages import ALL_LANGUAGES
from worker.posts.plain import read_plain_lines
from worker.posts.read import PassedOver, Post, Reason, Rejected, _read_form, read_post

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


def agrees(post: Post, form: str, message: dict[str, Any]) -> None:
    """The post is what the slow reader reads; white space may differ where there was HTML."""
    id, text, author = READERS[form](message)
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


Fields = tuple[str, str, str | None]  # id, text, author


class Visible(HTMLParser):
    """The characters of an HTML text, with line ends where a browser breaks lines."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.parts.append("\n" if tag in ("p", "br", "li", "ul", "ol", "blockquote", "pre") else "")

    def handle_endtag(self, tag: str) -> None:
        self.parts.append("\n" if tag in ("p", "ul", "ol", "blockquote", "pre") else "")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def visible(markup: str) -> str:
    parser = Visible()
    parser.feed(markup)
    parser.close()
    return "".join(parser.parts)


def _plain(message: dict[str, Any]) -> Fields:
    return str(message["id"]), message["text"], message.get("author") or None


def _x(message: dict[str, Any]) -> Fields:
    tweet = message.get("data") or message
    includes = message.get("includes") or {}
    text = _note(tweet)
    for reference in tweet.get("referenced_tweets") or []:
        if reference.get("type") == "retweeted":
            same = [t for t in includes.get("tweets") or [] if _same(t, reference.get("id"))]
            texts = [t for t in map(_note, [*same, reference]) if t is not None]
            if texts:
                text = texts[0]
                break
    author = tweet.get("author_id")
    users = [u for u in includes.get("users") or [] if _same(u, author) and u.get("username")]
    name = users[0]["username"] if users else author
    own = tweet.get("author")
    if own is not None:
        name = own if isinstance(own, str) else own.get("username") or name
    assert text is not None
    return str(tweet["id"]), text, str(name) if name not in (None, "") else None


def _same(holder: dict[str, Any], id: object) -> bool:
    return str(holder.get("id")) == str(id)


def _note(tweet: dict[str, Any]) -> str | None:
    note = (tweet.get("note_tweet") or {}).get("text")
    text: str | None = note if note is not None else tweet.get("text")
    return text


def _x1(message: dict[str, Any]) -> Fields:
    texts = []
    for tweet in (message.get("retweeted_status") or {}, message):
        extended = tweet.get("extended_tweet") or {}
        texts += [extended.get("full_text"), tweet.get("full_text"), tweet.get("text")]
    text = next(t for t in texts if t is not None)
    author = (message.get("user") or {}).get("screen_name") or None
    return str(message.get("id_str") or message["id"]), text, author


def _bluesky(message: dict[str, Any]) -> Fields:
    if "did" in message:
        did, commit = message["did"], message["commit"]
    else:
        did, commit = message["payload"]["did"], message["payload"]
    return ("at://" + did + "/app.bsky.feed.post/" + commit["rkey"], commit["record"]["text"], did)


def _mastodon(message: dict[str, Any]) -> Fields:
    status = message
    if message.get("event") is not None:
        payload = message["payload"]
        status = json.loads(payload) if isinstance(payload, str) else payload
    reason = status.get("reblog") or status
    text = visible(reason["content"])
    if reason.get("spoiler_text"):
        text = reason["spoiler_text"] + "\n" + text
    return str(status["id"]), text, (status.get("account") or {}).get("acct") or None


READERS = {"x": _x, "x1": _x1, "bluesky": _bluesky, "mastodon": _mastodon, "plain": _plain}


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
