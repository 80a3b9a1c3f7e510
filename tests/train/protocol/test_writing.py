"""Who is found: groups of posts that are counted by hand."""

from pathlib import Path

import numpy as np
import pytest

from tests.train.folders import write
from train.protocol.writing import found_by, marks, news_words


def test_a_word_of_the_news_stands_there_often_enough(tmp_path: Path) -> None:
    rows = [{"title": "Floods", "article": "The river’s flood isn't over, flood"}] * 2
    write(tmp_path / "articles" / "some.jsonl", [*rows, {"article": "THE FLOOD and rain"}])
    assert news_words(tmp_path) == {"the", "flood"}
    assert news_words(tmp_path / "none") == frozenset()


@pytest.mark.parametrize(
    ("mark", "shows", "hides"),
    [
        (
            "a word that no news has",
            "the flud is here",
            "the #flud @flud of Flud: http://t.co/flud",
        ),
        ("written as spoken (u, gonna, sooo)", "Sooo wet", "So wet"),
        ("written as spoken (u, gonna, sooo)", "are U ok", "The USA is ok"),
        ("written as spoken (u, gonna, sooo)", "Runnin' home", "Within minutes"),
        ("no capital letter", "flood http://t.co/ABC", "Flood"),
        ("at most 7 words", "a b c d e f g", "a b c d e f g h"),
        ("a hashtag", "#flood", "flood http://t.co/#a"),
        ("a retweet", "RT @a: flood", "ART @a"),
    ],
)
def test_a_mark_shows_in_one_post_and_not_in_the_other(mark: str, shows: str, hides: str) -> None:
    seen = marks(frozenset({"the", "is", "here", "of"}))[mark]
    assert seen(shows)
    assert not seen(hides)


def test_recall_is_the_share_of_each_group() -> None:
    posts = ["Flood", "flood", "#flood", "Rain today"]
    found = np.array([True, False, True, True])
    made = found_by(posts, [2016, 2016, None, 2018], found, frozenset())
    counted = {name: (one.posts, one.recall.value) for name, one in made.items()}
    assert counted == {
        "all": (4, 0.75),
        "2016": (2, 0.5),
        "2018": (1, 1),
        "no capital letter": (2, 0.5),
        "at most 7 words": (4, 0.75),
        "a hashtag": (1, 1),
    }
