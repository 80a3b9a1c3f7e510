"""Labelled crises of many countries, as a folder that judges and never trains.

Nobody kept news on them: the first headlines that the media posted are the article. Off topic is
what was gathered with a crisis and has nothing to do with it, and posts on the others.
"""

from collections.abc import Iterable, Mapping
from html import unescape
from typing import Any, NamedTuple

from train.data.splits import MIRRORED, bare
from train.languages.texts import drawn

RELATED = ("Related and informative", "Related - but not informative")
UNRELATED = "Not related"
MEDIA = "Media"
HEADLINES = 10
OTHERS = 2_000  # posts on other crises, for each

Row = dict[str, Any]


class Crisis(NamedTuple):
    """The headlines of one crisis, and the posts on it and beside it."""

    headlines: list[str]
    on: list[str]
    off: list[str]


def crisis_of(rows: Iterable[tuple[str, ...]]) -> Crisis:
    """The posts of a crisis by their source and label; what copies a headline is no post."""
    headlines, on, off = dict[str, str](), list[str](), list[str]()
    for text, source, label in rows:
        told, key = label.strip(), bare(text)
        if key and source == MEDIA and told == RELATED[0] and len(headlines) < HEADLINES:
            headlines.setdefault(key, " ".join(MIRRORED.sub(" ", unescape(text)).split()))
        elif key and key not in headlines and told in (*RELATED, UNRELATED):
            (off if told == UNRELATED else on).append(text)
    return Crisis(list(headlines.values()), on, off)


def crisis_rows(found: Mapping[str, Crisis]) -> tuple[list[Row], list[Row]]:
    """The posts of all crises with their labels, and an article on each."""
    posts: list[Row] = []
    for event, crisis in found.items():
        others = (text for name, other in found.items() if name != event for text in other.on)
        off = [*crisis.off, *list(drawn(others))[:OTHERS]]
        for label, texts in (("on-topic", crisis.on), ("off-topic", off)):
            posts += [{"event": event, "label": label, "text": text} for text in texts]
    told = {event: "\n".join(crisis.headlines) for event, crisis in found.items()}
    articles = [{"event": event, "article": text} for event, text in told.items() if text]
    return posts, articles
