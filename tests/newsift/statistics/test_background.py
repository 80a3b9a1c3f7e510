import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.text.clean import POST_CHARS
from newsift.statistics.background import SPARE_FACTOR, PostSampler, take_author_turns, text_hash
from worker.posts.read import Post

SAID = "Storm over the river"


def drawn(texts: list[str], most: int) -> tuple[list[str], PostSampler]:
    draw = PostSampler(most)
    for text in texts:
        draw.add(Post("1", "plain", text))
    return [each.text for each in draw.posts()], draw


@pytest.mark.parametrize(
    "again",
    [
        "RT @ann: Storm over the river", "storm over  the RIVER https://t.co/abc",
        "Storm over the river 🌊", "@bob Storm over the river",
    ],
)  # fmt: skip
def test_copies_are_drawn_once(again: str) -> None:
    assert text_hash(again) == text_hash(SAID)
    result, draw = drawn([SAID, again], 10)
    assert (result, draw.read, draw.copies) == ([SAID], 2, 1)


def test_posts_without_words_are_counted() -> None:
    result, draw = drawn([SAID, "🌊", "@bob https://t.co/abc"], 10)
    assert (result, draw.read, draw.wordless) == ([SAID], 3, 2)


def test_the_draw_is_the_lowest_hashes_in_any_order() -> None:
    texts = [f"post number {i}" for i in range(300)]
    lowest = sorted(texts, key=lambda text: text_hash(text) or 0)[: SPARE_FACTOR * 20]
    for seed in range(3):
        random.Random(seed).shuffle(texts)
        assert drawn(texts, 20)[0] == lowest
        assert drawn([*texts, *texts[::-1]], 20)[0] == lowest


@given(st.lists(st.sampled_from([None, "", "a", "b", "c"]), max_size=30), st.integers(0, 40))
def test_no_author_has_two_posts_before_all_have_one(authors: list[str | None], most: int) -> None:
    posts = [Post(str(i), "x", "", author=author) for i, author in enumerate(authors)]
    result = take_author_turns(posts, most)
    assert len(set(result)) == len(result) == min(most, len(posts))
    count = Counter(authors[at] for at in result if authors[at])
    whole = Counter(author for author in authors if author)
    if len(result) < len(posts):
        for one, number in count.items():
            for other, total in whole.items():
                assert number <= count[other] + 1 or count[other] == total, (one, other)
        if any(number > 1 for number in count.values()):
            assert all(at in result for at, author in enumerate(authors) if not author)


def test_a_draw_holds_of_a_post_only_what_a_background_needs() -> None:
    draw, size = PostSampler(1), 10**5
    draw.add(Post("i" * size, "x", "storm " * size, "ann", "t" * size, "en", "u" * size))
    (result,) = draw.posts()
    assert (result.platform, result.author, result.lang) == ("x", "ann", "en")
    assert len(result.text) <= POST_CHARS
    assert (result.id, result.created_at, result.url) == ("", None, None)
