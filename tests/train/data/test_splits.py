"""Splits by article and event: stable, disjoint, and free of copies."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from train.data.readers import CrisisPost, Pair, Story
from train.data.splits import bare, share, split_of, split_pairs, story_key, without_copies


def pairs(count: int) -> list[Pair]:
    return [Pair(f"post {i}", Story(f"title {i}", f"text {i}")) for i in range(count)]


def test_the_split_of_a_key_never_changes() -> None:
    drawn = [split_of(f"title {i}") for i in range(12)]
    assert drawn == [
        "dev", "test", "train", "dev", "test", "test",
        "dev", "train", "train", "test", "train", "train",
    ]  # fmt: skip


def test_the_shares_are_those_stated() -> None:
    splits = split_pairs(pairs(5000))
    shares = {name: len(kept) / 5000 for name, kept in splits.items()}
    assert abs(shares["dev"] - 0.1) < 0.02
    assert abs(shares["test"] - 0.2) < 0.02


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=60))
def test_nothing_stands_in_two_splits_and_nothing_else_is_lost(
    drawn: list[tuple[int, int]],
) -> None:
    given_pairs = [
        Pair(f"RT @user{i}: post {p} https://t.co/{i}", Story(f"Title {s}!", f"text {s}"))
        for i, (p, s) in enumerate(drawn)
    ]
    splits = split_pairs(given_pairs)
    posts = {name: {bare(pair.post) for pair in kept} for name, kept in splits.items()}
    stories = {name: {story_key(pair.story) for pair in kept} for name, kept in splits.items()}
    for a, b in combinations(splits, 2):
        assert not posts[a] & posts[b]
        assert not stories[a] & stories[b]
    kept = [pair for split in splits.values() for pair in split]
    for lost in (pair for pair in given_pairs if pair not in kept):
        alike = (bare(lost.post), bare(lost.story.text))
        assert any(bare(p.post) == alike[0] or bare(p.story.text) == alike[1] for p in kept)


def test_all_posts_of_an_article_stand_in_one_split() -> None:
    story = Story("One title", "text")
    splits = split_pairs([Pair(f"post {i}", story) for i in range(50)])
    assert sorted(map(len, splits.values())) == [0, 0, 50]


def test_copies_are_the_same_but_for_links_mentions_and_marks() -> None:
    assert bare("RT @a: Flood in Calgary! https://t.co/x &amp; more") == bare(
        "flood in calgary more"
    )
    assert bare("flood @a in .@b_c: RT @d, calgary") == bare("flood in calgary")
    assert bare("flood in calgary") != bare("flood in canmore")


def test_a_copy_within_an_event_goes() -> None:
    posts = [
        CrisisPost("a", "one", True), CrisisPost("a", "One https://t.co/1", False),
        CrisisPost("b", "one", True), CrisisPost("a", "two", True), CrisisPost("a", "@x", True),
    ]  # fmt: skip
    assert without_copies(posts) == [posts[0], posts[2], posts[3]]


def test_a_sample_depends_on_the_text_alone() -> None:
    shares = [share(f"post {i}") for i in range(2000)]
    assert shares == [share(f"post {i}") for i in range(2000)]
    assert all(0 <= s < 1 for s in shares)
    assert 0.45 < sum(s < 0.5 for s in shares) / 2000 < 0.55
