"""A crisis's headlines are its article, and no copy of one is a post."""

from pathlib import Path

from tests.train.folders import write
from train.data.readers import SkippedRows, TrainingArticle
from train.languages.texts import HEADLINES, OTHERS, Crisis, crisis_of, crisis_rows
from train.protocol.sets import read_crises

RELATED, LESS, NOT = "Related and informative", "Related - but not informative", "Not related"


def test_the_first_headlines_of_the_media_are_the_article() -> None:
    rows = [
        (" Tweet Text", " Information Source", " Informativeness"),
        ("RT @paper: The river is over its banks http://t.co/x", "Media", RELATED),
        ("the river is over its banks!", "Outsiders", RELATED),
        ("no water here", "Media", NOT),
        ("thoughts with the town", "Media", LESS),
        ("my street is a lake", "Eyewitness", f" {RELATED}"),
        ("what is this", "Not labeled", "Not applicable"),
        ("http://t.co/alone", "Media", RELATED),
    ]
    more = [(f"headline number {i} of the town", "Media", RELATED) for i in range(HEADLINES + 2)]
    found = crisis_of([*rows, *more])
    assert found.headlines[0] == "The river is over its banks"
    assert found.headlines[1:] == [text for text, _, _ in more[: HEADLINES - 1]]
    late = [text for text, _, _ in more[HEADLINES - 1 :]]
    assert found.on == ["thoughts with the town", "my street is a lake", *late]
    assert found.off == ["no water here"]


def test_posts_on_the_others_are_off_topic_and_the_folder_can_be_judged(tmp_path: Path) -> None:
    names = ("a flood", "a fire", "a quake")
    found = {
        name: Crisis(
            [f"{name} strikes the town", f"more on {name}"],
            [f"{name} seen by {i}" for i in range(OTHERS)],
            [f"beside {name} {i}" for i in range(3)],
        )
        for name in names
    }
    posts, articles = crisis_rows(found)
    write(tmp_path / "crisis/posts.jsonl.gz", posts)
    write(tmp_path / "crisis/seed_articles.jsonl.gz", articles)
    judged = {one.name: one for one in read_crises(tmp_path, SkippedRows())}
    assert set(judged) == set(names)
    for name, one in judged.items():
        assert list(one.seeds) == [TrainingArticle("", f"{name} strikes the town\nmore on {name}")]
        assert set(one.on) == set(found[name].on)
        others = {text for other in names if other != name for text in found[other].on}
        assert set(found[name].off) < set(one.off)
        assert len(set(one.off) & others) == OTHERS == len(one.off) - 3
