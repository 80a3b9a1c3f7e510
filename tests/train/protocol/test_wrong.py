"""What is confused: the wrong ones by a slow loop, and kinds that can be seen by eye."""

import numpy as np
import pytest

import encoder
from encoder.directory import write_model
from tests.encoder.small import small_model
from train.data.readers import Story
from train.protocol.wrong import KINDS, carrier, heaviest, highest_wrong, kinds_of, names_of

POSTS = ("flood city", "flood storm", "music match", "police fire", "flood river city")
STORIES = (Story("flood", "a flood in the city"), Story("fire", "police and fire"))


@pytest.fixture(scope="module")
def enc(tmp_path_factory: pytest.TempPathFactory) -> encoder.Encoder:
    path = tmp_path_factory.mktemp("model") / "small"
    write_model(path, small_model())
    return encoder.load(path, device="cpu")


def test_the_wrong_ones_above_the_threshold_come_by_falling_score(enc: encoder.Encoder) -> None:
    articles = enc.articles(STORIES)
    score = enc.posts(POSTS).similarity(articles)
    cuts = np.sort(score, axis=0)[1]  # all but the lowest reach it
    right = np.zeros(score.shape, np.bool_)
    right[0, 0] = True
    found = highest_wrong(enc, POSTS, STORIES, score, cuts, right)
    expected = []
    for i, post in enumerate(POSTS):
        reached = [(score[i, k], k) for k in (0, 1) if score[i, k] >= cuts[k] and not right[i, k]]
        if reached:
            best, k = max(reached)
            expected.append((float(best), float(cuts[k]), STORIES[k].title, post))
    assert [(one.score, one.threshold, one.title, one.post) for one in found] == sorted(
        expected, key=lambda one: -one[0]
    )
    for one in found:
        k = [story.title for story in STORIES].index(one.title)
        told = heaviest(enc.explain(one.post, articles, k)[:-1])
        assert [word for word, _ in one.words] == [word for word, _ in told]
    assert sum(kinds_of(found).values()) == len(found)
    nothing = highest_wrong(enc, POSTS, STORIES, score, cuts, np.ones_like(right))
    assert nothing == []


def test_a_word_that_stands_twice_gives_all_that_it_gives() -> None:
    parts = [("Flood", 0.1), ("city", 0.15), ("flood", 0.1)]
    assert [word for word, _ in heaviest(parts)] == ["flood", "city"]


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("Calgary", 0),
        ("#calgary", 0),
        ("2013", 1),
        ("river", 2),
        ("Flood", 2),
        ("snow", 3),
        ("", 3),
    ],
)
def test_what_is_shared_is_seen_in_the_article(word: str, kind: int) -> None:
    text = "Flood in a city: in 2013 the river hit Calgary, and Flood wardens saw a flood."
    assert carrier(word, names_of(Story("Calgary's River", text))) == KINDS[kind]
