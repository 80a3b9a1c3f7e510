"""What posts are read with: HTML to text, and times to RFC 3339."""

import html
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.slow_posts import visible
from worker.posts.checks import malformed
from worker.posts.markup import LONGEST, spoken
from worker.posts.outline import depth, longest_list, outline
from worker.posts.times import milliseconds, utc

MARKUP = [
    ("plain words", "plain words"),
    ("<p>one</p><p>two</p>", "one\n\ntwo"),
    ("<p>one<br>two<br/>three<br />four</p>", "one\ntwo\nthree\nfour"),
    ("<P>one</P>\n\n\n<P>two</P>", "one\n\ntwo"),
    ("a &lt;b&gt; &amp;amp; &eacute; &#128512;", "a <b> &amp; é 😀"),
    ("<p>1 &lt; 2</p>", "1 < 2"),
    ("I <3 you & 2 < 3", "I <3 you & 2 < 3"),
    ("<ul><li>one</li><li>two</li></ul>end", "one\ntwo\n\nend"),
    ('<a href="x" title="a > b">shown</a>', "shown"),
    ("<blockquote><p>said</p></blockquote>", "said"),
    ("ex<strong>treme</strong>ly", "extremely"),
    ("<script>x</script", "x</script"),
    ("<!-- hidden -->seen", "seen"),
    ("&#xD800;&#0;", "\ufffd\ufffd"),
    (f"&#{'1' * 5000};&#x{'1' * 5000};", "\ufffd\ufffd"),
    ("a" * LONGEST + "b", "a" * LONGEST),
    ("", ""),
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
def test_markup_says_what_a_parser_says(markup: str) -> None:
    assert spoken(markup).split() == visible(markup).split()


@pytest.mark.parametrize(
    "part", ["<", "<a ", '<a "', "<a '\"", "</p", "&", "&#", " ", "\n", "<!--"]
)
def test_a_megabyte_of_anything_is_read_in_one_pass(part: str) -> None:
    """A search that began anew at each character would hold the suite up for hours."""
    for end in ("", "x", ">"):
        spoken("<p>" + part * (2**20 // len(part)) + end)


@pytest.mark.parametrize("part", [rb"\u", rb"\ud800", b"\\", b'"', b"[", b'{"'])
def test_a_megabyte_of_bad_json_is_told_in_one_pass(part: bytes) -> None:
    malformed(part * (2**20 // len(part)), ValueError("x"))


TIMES = [
    ("2024-05-13T08:15:42.000Z", "2024-05-13T08:15:42.000Z"),
    ("2024-05-13T08:15:42.123456789Z", "2024-05-13T08:15:42.123456789Z"),
    ("2024-05-13T08:15:42+02:00", "2024-05-13T06:15:42Z"),
    ("2024-05-13 08:15:42.5-0130", "2024-05-13T09:45:42.500000Z"),
    ("Wed Oct 10 20:19:24 +0000 2018", "2018-10-10T20:19:24Z"),
    ("Wed Oct 10 20:19:24 +0200 2018", "2018-10-10T18:19:24Z"),
    ("Wed Okt 10 20:19:24 +0000 2018", None),
    ("Wed Oct 32 20:19:24 +0000 2018", None),
    ("2024-02-30T08:15:42Z", None),
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


@given(st.text(max_size=40) | st.floats() | st.integers())
def test_no_time_is_ever_an_error(written: str | float) -> None:
    milliseconds(utc(written))


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)),
    st.integers(-14 * 60, 14 * 60),
)
def test_a_time_is_the_same_moment(moment: datetime, minutes: int) -> None:
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
def test_the_outline_is_that_of_a_walk(value: object, ascii_only: bool) -> None:
    signs = outline(json.dumps(value, ensure_ascii=ascii_only).encode())
    assert depth(signs) == slow_depth(value)
    found = longest_list(signs)
    assert (found if found > 1 else 0) == (slow if (slow := slow_longest(value)) > 1 else 0)


@given(st.binary(max_size=40) | st.text('[]{},"\\', max_size=40).map(str.encode))
def test_an_outline_can_be_drawn_of_any_bytes(value: bytes) -> None:
    signs = outline(value)
    assert 0 <= depth(signs) <= len(value)
    assert 0 <= longest_list(signs) <= len(value) + 1
