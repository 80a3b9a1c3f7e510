import numpy as np
import pytest
from scipy.stats import binomtest

from tests.worker.small_encoder import small_encoder
from train.data.readers import TrainingArticle
from train.protocol.trust import (
    KINDS,
    heaviest,
    highest_errors,
    kinds_of,
    names_of,
    recall_by_group,
    reliability,
    share_of,
    style_tests,
    word_kind,
)


@pytest.mark.parametrize(("hits", "count"), [(0, 7), (7, 7), (3, 10), (1, 4000), (250, 300)])
def test_the_interval_of_a_share_is_scipys(hits: int, count: int) -> None:
    expected = binomtest(hits, count).proportion_ci(0.95, method="wilson")
    made = share_of(hits, count)
    assert made.value == pytest.approx(hits / count)
    assert (made.low, made.high) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_a_bin_holds_its_scores_and_is_as_precise_as_a_stream() -> None:
    on = np.array([0.11, 0.12, 0.31, -0.01], np.float32)
    other = np.array([0.13, 0.01, 0.02, 0.03, -0.04, -0.01], np.float32)
    bins = {one.low: one for one in reliability(on, other)}
    counted = {low: (one.on, one.other) for low, one in bins.items()}
    assert counted == {-0.05: (1, 2), 0.0: (0, 3), 0.1: (2, 1), 0.3: (1, 0)}
    # 26 × 60 posts, 60 of them on topic: half of those and a sixth of the others lie in the bin
    hits, alarms = 60 * 2 / 4, 25 * 60 / 6
    assert bins[0.1].precision.value == pytest.approx(hits / (hits + alarms))
    assert (bins[0.0].precision.value, bins[0.3].precision.value) == (0, 1)
    for one in bins.values():
        assert one.precision.low <= one.precision.value <= one.precision.high


@pytest.mark.parametrize(
    ("style", "shows", "hides"),
    [
        ("a word that no article has", "the flud is here", "the #flud @flud of http://t.co/flud"),
        ("written as spoken (u, gonna, sooo)", "Sooo wet", "So wet"),
        ("no capital letter", "flood http://t.co/ABC", "Flood"),
        ("at most 7 words", "a b c d e f g", "a b c d e f g h"),
        ("a hashtag", "#flood", "flood http://t.co/#a"),
        ("a retweet", "RT @a: flood", "ART @a"),
    ],
)
def test_a_style_shows_in_one_post_and_not_in_the_other(style: str, shows: str, hides: str) -> None:
    has_style = style_tests(frozenset({"the", "is", "here", "of"}))[style]
    assert has_style(shows)
    assert not has_style(hides)


def test_recall_is_the_share_of_each_group() -> None:
    posts = ["Flood", "flood", "#flood", "Rain today"]
    result = np.array([True, False, True, True])
    made = recall_by_group(posts, [2016, 2016, None, 2018], result, frozenset())
    counted = {name: (one.posts, one.recall.value) for name, one in made.items()}
    assert counted == {
        "all": (4, 0.75), "2016": (2, 0.5), "2018": (1, 1), "no capital letter": (2, 0.5),
        "at most 7 words": (4, 0.75), "a hashtag": (1, 1),
    }  # fmt: skip


POSTS = ("flood city", "flood storm", "music match", "police fire", "flood river city")
STORIES = (
    TrainingArticle("flood", "a flood in the city"),
    TrainingArticle("fire", "police and fire"),
)


def test_the_wrong_ones_above_the_threshold_come_by_falling_score() -> None:
    enc = small_encoder()
    articles = enc.articles(STORIES)
    score = enc.posts(POSTS).similarity(articles)
    cuts = np.sort(score, axis=0)[1]  # all but the lowest reach it
    right = np.zeros(score.shape, np.bool_)
    right[0, 0] = True
    result = highest_errors(enc, POSTS, STORIES, score, cuts, right)
    expected = []
    for i, post in enumerate(POSTS):
        reached = [(score[i, k], k) for k in (0, 1) if score[i, k] >= cuts[k] and not right[i, k]]
        if reached:
            best, k = max(reached)
            expected.append((float(best), float(cuts[k]), STORIES[k].title, post))
    assert [(one.score, one.threshold, one.title, one.post) for one in result] == sorted(
        expected, key=lambda one: -one[0]
    )
    for one in result:
        k = [story.title for story in STORIES].index(one.title)
        words = heaviest(enc.explain(one.post, articles, k)[:-1])
        assert [word for word, _ in one.words] == [word for word, _ in words]
    assert sum(kinds_of(result).values()) == len(result)
    nothing = highest_errors(enc, POSTS, STORIES, score, cuts, np.ones_like(right))
    assert nothing == []


@pytest.mark.parametrize(
    ("word", "kind"),
    [("Calgary", 0), ("#calgary", 0), ("2013", 1), ("river", 2), ("Flood", 2), ("snow", 3)],
)
def test_what_is_shared_is_seen_in_the_article(word: str, kind: int) -> None:
    text = "Flood in a city: in 2013 the river hit Calgary, and Flood wardens saw a flood."
    assert word_kind(word, names_of(TrainingArticle("Calgary's River", text))) == KINDS[kind]
