import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import average_precision_score, roc_auc_score

from encoder.model.weights import F32
from tests.train import tiny
from train.data.readers import TrainingArticle
from train.protocol.metrics import (
    Bool,
    ap_figure,
    ap_of,
    auc_figure,
    auc_of,
    clusters_of,
    compare_scorers,
    draw_counts,
    interval,
    pair_auc_of,
    r_precisions,
    recall_figure,
)
from train.protocol.peers import Scorer, bm25, tf_idf, transformer
from train.teacher.minilm import CHUNK_WORDS, chunks, readable


def drawn(seed: int, posts: int, articles: int, steps: int) -> tuple[F32, Bool]:
    """Scores on a grid, so that many are equal, higher where a pair belongs together."""
    rng = np.random.default_rng(seed)
    label = rng.random((posts, articles)) < 0.1
    label[0, 0], label[0, -1] = True, False
    raw = rng.random((posts, articles)) + 0.3 * label
    return (np.round(raw * steps) / steps).astype(np.float32), label


@given(
    st.integers(0, 9999), st.integers(2, 30), st.integers(2, 30), st.sampled_from([3, 40, 10**6])
)
def test_ap_and_auc_equal_scikit_learn(seed: int, posts: int, articles: int, steps: int) -> None:
    score, label = drawn(seed, posts, articles, steps)
    expected = average_precision_score(label.ravel(), score.ravel())
    assert ap_of(score, label) == pytest.approx(expected)
    expected = roc_auc_score(label.ravel(), score.ravel())
    assert auc_of(score[label], score[~label]) == pytest.approx(expected)
    assert pair_auc_of(score, label) == auc_of(score[label], score[~label])


@pytest.mark.parametrize("steps", [40, 10**6])
def test_r_precision_is_the_share_of_the_highest_pairs(steps: int) -> None:
    score, label = drawn(1, 40, 50, steps)
    result = r_precisions(score, label)
    order = sorted(range(2000), key=lambda i: -score.ravel()[i])  # equal ones stay in their order
    ranked = label.ravel()[order]
    for r in (50, 100, 200, 500, 1000, 2000):
        assert result[r] == pytest.approx(sum(ranked[:r]) / r)
    assert np.isnan(result[3000])


@pytest.mark.parametrize("part", [1, 7, 1999, 2000])
def test_parts_change_nothing(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    score, label = drawn(2, 40, 50, 40)
    whole = [ap_of(score, label), pair_auc_of(score, label), *r_precisions(score, label).values()]
    monkeypatch.setattr("train.protocol.metrics.PART", part)
    parts = [ap_of(score, label), pair_auc_of(score, label), *r_precisions(score, label).values()]
    np.testing.assert_array_equal(whole, parts)


def test_copies_of_a_text_are_one_cluster() -> None:
    texts = ["Flood in Calgary", "RT @x: flood in calgary! https://t.co/y", "Fire"]
    assert clusters_of(texts).tolist() == [0, 0, 1]


def test_a_cluster_is_drawn_whole() -> None:
    cluster = np.array([0, 0, 1, 2, 2, 2])
    for seed in range(20):
        counts = draw_counts(cluster, np.random.default_rng(seed))
        assert counts[0] == counts[1]
        assert counts[3] == counts[4] == counts[5]
        assert counts[0] + counts[2] + counts[3] == 3


@pytest.mark.parametrize("seed", range(5))
def test_weights_count_a_pair_so_many_times(seed: int) -> None:
    rng = np.random.default_rng(seed)
    score = np.round(rng.random((9, 6)) * 8).astype(np.float32)
    label = rng.random((9, 6)) < 0.3
    rows, columns = rng.integers(0, 4, 9), rng.integers(0, 4, 6)
    weight = np.outer(rows, columns).ravel()
    expected = average_precision_score(label.ravel(), score.ravel(), sample_weight=weight)
    assert ap_figure(score, label)(rows, columns) == pytest.approx(expected)
    on, other = score[:4].ravel(), score[4:].ravel()
    both = np.arange(54) < len(on)
    expected = roc_auc_score(both, np.concatenate([on, other]), sample_weight=weight)
    result = auc_figure(on, other)(weight[: len(on)], weight[len(on) :])
    assert result == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_recall_is_counted_where_no_seed_lets_more_of_the_background_pass(seed: int) -> None:
    rng = np.random.default_rng(seed)
    on, background = (np.round(rng.random((n, 3)) * 8).astype(np.float32) for n in (12, 40))
    ons, others = rng.integers(0, 4, 12), rng.integers(0, 4, 40)
    allowed, found = 0.1 * others.sum(), np.zeros(12, np.bool_)
    for seed_on, seed_background in zip(on.T, background.T, strict=True):
        passing = [
            cut for cut in np.arange(-1, 9) if others[seed_background > cut].sum() <= allowed
        ]
        found |= seed_on > min(passing)
    expected = ons[found].sum() / ons.sum()
    assert recall_figure(on, background, 0.1)(ons, others) == pytest.approx(expected)


def test_a_draw_without_a_pair_says_nothing() -> None:
    """One pair among ten articles: a third of the draws lacks its article."""
    figure = ap_figure(np.eye(1, 10, dtype=np.float32), np.eye(1, 10, dtype=np.bool_))
    ((own, apart),) = compare_scorers([figure], np.arange(1), np.arange(10), 50)
    assert (own.value, own.low, own.high) == (1, 1, 1)
    assert (apart.low, apart.high) == (0, 0)
    assert math.isnan(interval(np.array([1.0, np.nan])).low)


def test_a_scorer_does_not_differ_from_itself() -> None:
    rng = np.random.default_rng(3)
    label = np.eye(20, dtype=np.bool_)
    score = (rng.random((20, 20)) + label).astype(np.float32)
    worse = rng.random((20, 20)).astype(np.float32)
    each = np.arange(20)
    mine, other = ap_figure(score, label), ap_figure(worse, label)
    same, drawn = (compare_scorers([mine, one], each, each, 50) for one in (mine, other))
    own, apart = same[1]
    assert (apart.value, apart.low, apart.high) == (0, 0, 0)
    assert own.low <= own.value <= own.high + 0.1
    assert drawn[1][1].high < 0
    on, others = rng.random(300) + 0.2, rng.random(300)
    figure = auc_figure(on.astype(np.float32), others.astype(np.float32))
    (value, _), (_, none) = compare_scorers([figure] * 2, np.arange(300), np.arange(300), 200)
    assert value.low < value.value < value.high
    assert (none.low, none.high) == (0, 0)
    # the standard error of an AUC near 0.69 of 300 against 300 is about 0.021
    assert 0.04 < value.high - value.low < 0.13


POSTS = ["flood in the city", "A match, a match!", "nothing alike", ""]
STORIES = [
    TrainingArticle("Flood", "The river flood hit the old city. Flood flood."),
    TrainingArticle("", "A match of music in the rain"),
    TrainingArticle("Fire", "police and fire"),
]


def scores(scorer: Scorer) -> F32:
    return scorer(POSTS, STORIES)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def full(story: TrainingArticle) -> str:
    return f"{story.title}. {story.text}"


def test_bm25_is_its_formula() -> None:
    documents = [words(full(story)) for story in STORIES]
    mean = sum(map(len, documents)) / 3
    for i, post in enumerate(POSTS):
        for j, document in enumerate(documents):
            expected = 0.0
            for word in words(post):
                having = sum(word in other for other in documents)
                idf = math.log(1 + (3 - having + 0.5) / (having + 0.5))
                tf = document.count(word)
                expected += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(document) / mean))
            assert scores(bm25)[i, j] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("counted", [None, ["flood and fire", "the rain in the city", "a match"]])
def test_tf_idf_equals_scikit_learn(counted: list[str] | None) -> None:
    texts = [full(story) for story in STORIES]
    vectorizer = TfidfVectorizer(token_pattern=r"\w+", sublinear_tf=True)
    vectorizer.fit([*POSTS, *texts] if counted is None else counted)
    vocabulary = set(vectorizer.get_feature_names_out())
    vectorizer.idf_ = vectorizer.idf_ - 1  # scikit-learn adds one to each idf, the formula does not
    expected = (vectorizer.transform(POSTS) @ vectorizer.transform(texts).T).toarray()
    if counted is None:
        assert np.allclose(scores(tf_idf([*POSTS, *texts])), expected, atol=1e-6)
    else:
        # words that were not counted have an idf for us and no place for scikit-learn
        countable = [all(w in vocabulary for w in words(t)) for t in POSTS]
        result = scores(tf_idf(counted))
        assert np.array_equal(result[countable] > 0, expected[countable] > 0)


def test_an_article_is_to_minilm_all_its_chunks() -> None:
    long = " ".join(f"word{i}" for i in range(CHUNK_WORDS * 2 + 5))
    stories = [TrainingArticle("A title", long), TrainingArticle("", "short")]
    whole = transformer(tiny.Teacher().texts)(POSTS, stories)
    for i, post in enumerate(POSTS):
        vector = unit(tiny.vectors([readable(post)])[0])
        parts = [unit(vector) for vector in tiny.vectors(chunks("A title", long))]
        assert len(parts) == 3
        mean = unit(2 * parts[0] + parts[1] + parts[2])
        assert whole[i, 0] == pytest.approx(vector @ mean, abs=1e-5)
        assert whole[i, 1] == pytest.approx(vector @ unit(tiny.vectors(["short"])[0]), abs=1e-5)


def unit(vector: F32) -> F32:
    return np.asarray(vector / np.linalg.norm(vector), np.float32)
