"""`newsift bench languages`: how well posts are found in languages other than English."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

import encoder
from bench.part import Cell, Part
from train.protocol.ranking import Bool, auc_of

TEXTS = Path(__file__).with_suffix(".yaml")
REFERENCE = "English"
RATE = 0.001
HEADER = (
    "posts in",
    *("AUC, English article", "alike", "found, %", "false, %"),
    *("AUC, own language", "alike, own", "found, %, own", "false, %, own"),
)
REMARKS = (
    "AUC × 100: posts with their event's article against posts of the other events with it, all",
    "pairs pooled; alike: against a post on another event of the article's kind. Found: own pairs",
    f"at or above the automatic threshold (rate {RATE:g}); false: posts of the other events there.",
    "So few texts tell what works from what does not, and no more.",
)


class Story(NamedTuple):
    """One event as one language tells it."""

    event: str
    article: str
    posts: tuple[str, ...]
    other: str  # a post on another event of the same kind


class Finding(NamedTuple):
    """How well some articles find posts: two AUC and two shares of pairs, each within 0 and 1."""

    auc: float
    alike: float
    found: float
    false: float


def measure_languages(model: str) -> Part:
    """Measure a model on every language of the shipped texts."""
    stories = read_stories()
    rows: list[tuple[Cell, ...]] = [
        (language, *(100 * share for finding in both for share in finding))
        for language, both in findings(encoder.load(model, device="cpu"), stories).items()
    ]
    told = stories[REFERENCE]
    posts = sum(len(story.posts) for story in told)
    title = f"{posts} posts of {len(told)} invented events in each language, model {model}"
    return Part("languages", title, HEADER, rows, REMARKS)


def read_stories(file: Path = TEXTS) -> dict[str, list[Story]]:
    """The stories of every language, the events everywhere in the order of the reference."""
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(file.read_text("utf-8"))
    return {
        language: [
            Story(event, told[event]["article"], tuple(told[event]["posts"]), told[event]["other"])
            for event in found[REFERENCE]
        ]
        for language, told in found.items()
    }


def findings(
    enc: encoder.Encoder, stories: Mapping[str, Sequence[Story]]
) -> dict[str, tuple[Finding, Finding]]:
    """The posts of each language, looked for with English articles and with the language's own."""
    articles = {
        language: enc.articles([story.article for story in told])
        for language, told in stories.items()
    }
    found = {}
    for language, told in stories.items():
        posts = enc.posts([post for story in told for post in story.posts])
        others = enc.posts([story.other for story in told])
        english, same = (
            finding(
                posts.similarity(a),
                belonging(told),
                np.diagonal(others.similarity(a)),
                enc.thresholds(a, rate=RATE),
            )
            for a in (articles[REFERENCE], articles[language])
        )
        found[language] = english, same
    return found


def belonging(told: Sequence[Story]) -> Bool:
    """Whether a post tells of the event of an article: [posts, articles]."""
    counts = [len(story.posts) for story in told]
    return np.repeat(np.eye(len(told), dtype=np.bool_), counts, axis=0)


def finding(score: NDArray[Any], own: Bool, alike: NDArray[Any], cut: NDArray[Any]) -> Finding:
    """What the scores [posts, articles] are worth, with a threshold for each article.

    `alike` are the scores of each article with a post on another event of its kind.
    """
    reached = score >= cut
    return Finding(
        auc_of(score[own], score[~own]),
        auc_of(score[own], alike),
        float(reached[own].mean()),
        float(reached[~own].mean()),
    )
