"""The peers against scikit-learn and against the formula of BM25, written as a loop."""

import math
import re

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from encoder.model.weights import F32
from tests.train import tiny
from train.data.readers import TrainingArticle
from train.protocol.peers import Scorer, bm25, counted_idf, minilm, tf_idf
from train.teacher.minilm import CHUNK_WORDS, chunks, readable

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
        assert np.allclose(scores(tf_idf(counted_idf([*POSTS, *texts]))), expected, atol=1e-6)
    else:
        # words that were not counted have an idf for us and no place for scikit-learn
        known = [all(w in vocabulary for w in words(t)) for t in POSTS]
        found = scores(tf_idf(counted_idf(counted)))
        assert np.array_equal(found[known] > 0, expected[known] > 0)


def test_a_post_without_words_scores_nothing() -> None:
    for scorer in (bm25, tf_idf(counted_idf(POSTS))):
        assert not scores(scorer)[3].any()


def test_an_article_is_to_minilm_all_its_chunks() -> None:
    long = " ".join(f"word{i}" for i in range(CHUNK_WORDS * 2 + 5))
    stories = [TrainingArticle("A title", long), TrainingArticle("", "short")]
    whole = minilm(tiny.Teacher().texts)(POSTS, stories)
    for i, post in enumerate(POSTS):
        asked = unit(tiny.vectors([readable(post)])[0])
        parts = [unit(vector) for vector in tiny.vectors(chunks("A title", long))]
        assert len(parts) == 3
        mean = unit(2 * parts[0] + parts[1] + parts[2])
        assert whole[i, 0] == pytest.approx(asked @ mean, abs=1e-5)
        assert whole[i, 1] == pytest.approx(asked @ unit(tiny.vectors(["short"])[0]), abs=1e-5)


def unit(vector: F32) -> F32:
    return np.asarray(vector / np.linalg.norm(vector), np.float32)
