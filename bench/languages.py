"""`newsift bench languages`: how well posts are found in languages other than English."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

import encoder
from bench.measure import Cell, ResultTable
from train.protocol.metrics import Bool, auc_of

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


class LanguageEvent(NamedTuple):
    """One event in one language."""

    event: str
    article: str
    posts: tuple[str, ...]
    other: str  # a post on another event of the same kind


class SearchFigures(NamedTuple):
    """How well articles match posts: two AUC and two shares of pairs, from 0 to 1."""

    auc: float
    alike: float
    recall: float
    false: float


def measure_languages(model: str) -> ResultTable:
    stories = read_stories()
    rows: list[tuple[Cell, ...]] = [
        (language, *(100 * share for figures in both for share in figures))
        for language, both in search_figures(encoder.load(model, device="cpu"), stories).items()
    ]
    reference = stories[REFERENCE]
    posts = sum(len(story.posts) for story in reference)
    title = f"{posts} posts of {len(reference)} invented events in each language, model {model}"
    return ResultTable("languages", title, HEADER, rows, REMARKS)


def read_stories(file: Path = TEXTS) -> dict[str, list[LanguageEvent]]:
    """The events of every language, in the order of the reference."""
    languages: Mapping[str, Mapping[str, Any]] = yaml.safe_load(file.read_text("utf-8"))
    return {
        language: [
            LanguageEvent(
                event,
                events[event]["article"],
                tuple(events[event]["posts"]),
                events[event]["other"],
            )
            for event in languages[REFERENCE]
        ]
        for language, events in languages.items()
    }


def search_figures(
    enc: encoder.Encoder, stories: Mapping[str, Sequence[LanguageEvent]]
) -> dict[str, tuple[SearchFigures, SearchFigures]]:
    """The posts of each language, compared with English articles and with the language's own."""
    articles = {
        language: enc.articles([story.article for story in own])
        for language, own in stories.items()
    }
    result = {}
    for language, own in stories.items():
        posts = enc.posts([post for story in own for post in story.posts])
        others = enc.posts([story.other for story in own])
        english, same = (
            pair_figures(
                posts.similarity(a),
                is_own_event(own),
                np.diagonal(others.similarity(a)),
                enc.thresholds(a, rate=RATE),
            )
            for a in (articles[REFERENCE], articles[language])
        )
        result[language] = english, same
    return result


def is_own_event(stories: Sequence[LanguageEvent]) -> Bool:
    """Whether a post is about the event of an article: [posts, articles]."""
    counts = [len(story.posts) for story in stories]
    return np.repeat(np.eye(len(stories), dtype=np.bool_), counts, axis=0)


def pair_figures(
    score: NDArray[Any], own: Bool, alike: NDArray[Any], thresholds: NDArray[Any]
) -> SearchFigures:
    """The figures of scores [posts, articles], with a threshold for each article.

    `alike` are the scores of each article with a post on another event of its kind.
    """
    hits = score >= thresholds
    return SearchFigures(
        auc_of(score[own], score[~own]),
        auc_of(score[own], alike),
        float(hits[own].mean()),
        float(hits[~own].mean()),
    )
