from pathlib import Path

from tests.train.data_folder import read
from tests.train.texts.test_gather import repository
from train.texts.crises import HEADLINES, make_crisis, write_crises
from train.texts.sources import Clones

SOURCE = """
- repo: one/crises
  commit: {commit}
  licence: none stated
  form: table
  fields: [1, 2, 3]
  files: {{flood: [flood.csv], fire: [fire.csv]}}
"""
FLOOD = """id,text,from,label
1,Il fiume è in piena,Media,Related and informative
2,la mia strada è un lago,Eyewitness,Related and informative
3,ciao,Media,Not related
"""
FIRE = "id,text,from,label\n1,the hill burns,Eyewitness,Related and informative\n"


def test_crises_become_labelled_posts_and_an_article_on_each(tmp_path: Path) -> None:
    commit = repository(tmp_path / "home", "one/crises", {"flood.csv": FLOOD, "fire.csv": FIRE})
    sources = tmp_path / "crises.yaml"
    sources.write_text(SOURCE.format(commit=commit))
    clones = Clones(tmp_path / "clones", f"file://{tmp_path}/home/")
    write_crises(clones, tmp_path / "crisis", sources)
    posts = read(tmp_path / "crisis/posts.jsonl.gz")
    assert [(row["event"], row["label"], row["text"]) for row in posts] == [
        ("flood", "on-topic", "la mia strada è un lago"),
        ("flood", "off-topic", "ciao"),
        ("flood", "off-topic", "the hill burns"),
        ("fire", "on-topic", "the hill burns"),
        ("fire", "off-topic", "la mia strada è un lago"),
    ]
    (article,) = read(tmp_path / "crisis/seed_articles.jsonl.gz")
    assert article == {"event": "flood", "article": "Il fiume è in piena"}


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
    result = make_crisis([*rows, *more])
    assert result.headlines[0] == "The river is over its banks"
    assert result.headlines[1:] == [text for text, _, _ in more[: HEADLINES - 1]]
    late = [text for text, _, _ in more[HEADLINES - 1 :]]
    assert result.on == ["thoughts with the town", "my street is a lake", *late]
    assert result.off == ["no water here"]
