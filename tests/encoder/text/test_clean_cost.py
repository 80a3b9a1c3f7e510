import tracemalloc
import unicodedata
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.model.config import AstConfig, Side
from encoder.support.letters import MAX_MARKS, fold, is_mark, limit_marks, marks_beyond
from encoder.text.clean import clean_article, clean_chunk
from encoder.text.tokenizer import Tokenizer
from encoder.text.vocabulary import WordPiece
from tests.encoder.small_model import LINES

pytestmark = pytest.mark.slow

SMALL, LARGE = 2**11, 2**14
UNITS = (
    "a t h ht tt http http: https:// https://t.co/ www. www.a. a. a- a.com/ pic.twitter.com t… … "
    "ht… @ @a @- @a.b @a@ # #a #aB #a_ #A1b2 _ & &amp; &#1; &amp;amp; &lt &# RT RT: ' aaa aA ! a! "
    "1 a1 < > ttp d.com -- &notin; \u2019 \xe9 \u0301 \u0301\u0316 a\u0301\u0316 \u0f73 "
    "\u0f73\u0316 \u0344\u0316 \u0301\u200b\u0316 &#769;&#790; \uff41 \U0001d41a \ufb01 \u2460 "
    "\u6f22 \ud55c \u0e01 \u0915\u094d \U0001f600 \u0416 \u03a3 \xc41\xf6 \ufdfa \u3300 "
    "=\u0338 \u0301@\u0316"
)
ENDS = ("", "/", "@x")


def spent(chunk: str, side: Side) -> float:
    """CPU seconds to clean and fold a chunk, the least of three times."""
    result = [float("inf")]
    while len(result) < 4 and result[-1] > 0.001:
        started = process_time()
        fold(clean_chunk(chunk, side))
        result.append(process_time() - started)
    return min(result)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("side", Side)
def test_the_cost_of_cleaning_is_linear(side: Side, end: str) -> None:
    for unit in UNITS.split():
        small, large = (unit * (size // len(unit)) + end for size in (SMALL, LARGE))
        if (most := spent(large, side)) > 0.005:
            assert most < 4 * LARGE / SMALL * spent(small, side), unit


MARKED = st.text("ab\u0301\u0316\u0344\u0f73\u1d165\U0001d165\u0e31\u200b\u05b0", max_size=8)


@given(st.lists(st.tuples(MARKED, st.integers(1, 40))), st.integers(1, 40))
def test_combining_marks_are_counted_and_cut_like_a_slow_walk(
    parts: list[tuple[str, int]], limit: int
) -> None:
    text = "".join(part * times for part, times in parts)
    shortened, most, count = [], 0, 0
    for char in text:
        count = count + 1 if unicodedata.combining(unicodedata.normalize("NFD", char)[0]) else 0
        most = max(most, count)
        shortened.extend([char] if count <= MAX_MARKS else [])
    assert limit_marks(text) == "".join(shortened)
    assert marks_beyond(text, limit) == (most if most > limit else 0)


def test_every_combining_mark_of_unicode_is_counted() -> None:
    marks = [c for c in map(chr, range(0x110000)) if is_mark(c)]
    slowly = [
        c for c in map(chr, range(0x110000))
        if unicodedata.combining(unicodedata.normalize("NFD", c)[0])
    ]  # fmt: skip
    assert marks == slowly
    assert [c for c in slowly if marks_beyond(2 * c, 1) != 2] == []


def test_marks_above_the_limit_are_dropped() -> None:
    few, many = ("flood" + "\u0301" * count + " in the city" for count in (30, 31))
    assert clean_article(many) == clean_article(few)


def test_long_words_are_not_cached() -> None:
    """Each fills 16 KB; a memory for 2**16 words that kept them would grow to a gigabyte."""
    tokenizer = Tokenizer(WordPiece.from_lines(LINES), None, AstConfig())
    letters = "".join(map(chr, range(0x430, 0x44F))) * 261
    tokenizer.posts([letters])
    tracemalloc.start()
    try:
        for number in range(30):
            tokenizer.posts([chr(0x400 + number) + letters])
        memory, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert memory < 200_000  # of 480,000
