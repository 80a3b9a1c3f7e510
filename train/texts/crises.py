"""Gather the 24 labelled crises of CrisisLexT26 that judge a model, and never train one.

python -m train.texts.crises --out DIR [--clones DIR]

DIR gets `crisis/`, as `newsift evaluate --data DIR --split all` reads it; the everyday posts of its
background belong into `tweets/`. Clones are stored in DIR.clones. The output is reproducible.
"""

from collections.abc import Iterable, Mapping
from html import unescape
from pathlib import Path
from typing import NamedTuple

import click

from train.command import run_command
from train.data.readers import LINKS_AND_MENTIONS, REPORTS, copy_key
from train.texts.sources import Clones, read_sources
from train.texts.texts import Row, rows, shuffle, write

SOURCES_FILE = Path(__file__).with_name("crises.yaml")
ON_TOPIC_LABELS = ("Related and informative", "Related - but not informative")
OFF_TOPIC_LABEL = "Not related"
MEDIA = "Media"
HEADLINES = 10
OTHERS = 2_000  # posts on other crises, per crisis


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--clones", type=click.Path(path_type=Path), help="Where clones are kept.")
def main(out: Path, clones: Path | None) -> None:
    """Gather labelled crises."""
    write_crises(Clones(clones or out.with_name(f"{out.name}.clones")), out / "crisis")


def write_crises(clones: Clones, folder: Path, sources: Path = SOURCES_FILE) -> None:
    """Write the labelled posts of all crises, and an article on each."""
    crises = {
        event: make_crisis(
            row
            for path in paths
            for name, raw in clones.read_all(source, path)
            for row in rows(source, name, raw)
        )
        for source in read_sources(sources)
        for event, paths in source.files.items()
    }
    posts, articles = crisis_rows(crises)
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "posts.jsonl.gz", posts)
    write(folder / f"{REPORTS}.jsonl.gz", articles)


class Crisis(NamedTuple):
    """The headlines of one crisis, and its on-topic and off-topic posts."""

    headlines: list[str]
    on: list[str]
    off: list[str]


def make_crisis(rows: Iterable[tuple[str, ...]]) -> Crisis:
    """Sort the rows of a crisis by source and label; copies of a headline are removed."""
    headlines, on, off = dict[str, str](), list[str](), list[str]()
    for text, source, label in rows:
        name, key = label.strip(), copy_key(text)
        if key and source == MEDIA and name == ON_TOPIC_LABELS[0] and len(headlines) < HEADLINES:
            headlines.setdefault(key, " ".join(LINKS_AND_MENTIONS.sub(" ", unescape(text)).split()))
        elif key and key not in headlines and name in (*ON_TOPIC_LABELS, OFF_TOPIC_LABEL):
            (off if name == OFF_TOPIC_LABEL else on).append(text)
    return Crisis(list(headlines.values()), on, off)


def crisis_rows(crises: Mapping[str, Crisis]) -> tuple[list[Row], list[Row]]:
    """Return labelled posts of all crises, and an article on each."""
    posts: list[Row] = []
    for event, crisis in crises.items():
        others = (text for name, other in crises.items() if name != event for text in other.on)
        off = [*crisis.off, *list(shuffle(others))[:OTHERS]]
        for label, texts in (("on-topic", crisis.on), ("off-topic", off)):
            posts += [{"event": event, "label": label, "text": text} for text in texts]
    by_event = {event: "\n".join(crisis.headlines) for event, crisis in crises.items()}
    articles = [{"event": event, "article": text} for event, text in by_event.items() if text]
    return posts, articles


if __name__ == "__main__":
    run_command(main)
