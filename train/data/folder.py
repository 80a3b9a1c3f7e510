"""A folder of labelled data by its parts: `pairs/`, `crisis/`, `tweets/` and `articles/`.

What is not there is not read. In `pairs/`, a file NAME_claims or NAME_pool beside NAME holds
further articles; in `crisis/`, `seed_articles` holds the reports on the events.
"""

from collections.abc import Iterator
from pathlib import Path

from train.data.readers import (
    CrisisPost,
    Pair,
    Passed,
    Story,
    read_crisis_posts,
    read_pairs,
    read_reports,
    read_stories,
)

KINDS = (".jsonl", ".jsonl.gz", ".csv", ".tsv")
CLAIMS, POOL, REPORTS = "_claims", "_pool", "seed_articles"


def files(data: Path, part: str) -> dict[str, Path]:
    """The files of rows in one part of a folder, by their names without endings, in order."""
    folder = data / part
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return {file.name.partition(".")[0]: file for file in found if file.name.endswith(KINDS)}


def pair_sets(data: Path, passed: Passed) -> Iterator[tuple[str, list[Pair]]]:
    """The pairs of every file, by its name."""
    for name, file in files(data, "pairs").items():
        if not name.endswith((CLAIMS, POOL)):
            yield name, list(read_pairs(file, passed))


def pool(data: Path, name: str, ending: str, passed: Passed) -> Iterator[Story]:
    """The further articles, or claims, beside the pairs of this name."""
    file = files(data, "pairs").get(name + ending)
    return iter(()) if file is None else read_stories(file, passed)


def crisis_posts(data: Path, passed: Passed) -> Iterator[CrisisPost]:
    """The labelled posts of all events."""
    for name, file in files(data, "crisis").items():
        if name != REPORTS:
            yield from read_crisis_posts(file, passed)


def reports(data: Path, passed: Passed) -> dict[str, list[Story]]:
    """The articles on each event."""
    found: dict[str, list[Story]] = {}
    if file := files(data, "crisis").get(REPORTS):
        for event, story in read_reports(file, passed):
            found.setdefault(event, []).append(story)
    return found
