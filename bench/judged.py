"""`newsift bench languages --data DIR`: texts of sixteen languages that did not train the model.

DIR is the output of `python -m train.languages.gather`. Sentences are compared with their English
originals and with others of their topic, everyday posts with the articles of the bench.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import encoder
from bench.languages import RATE, REFERENCE, read_stories
from bench.measure import Cell, ResultTable
from encoder.errors import InputError
from train.data.corpus import read_everyday
from train.data.readers import SkippedRows, rows
from train.protocol.metrics import auc_of
from train.run import read_background_posts

ENGLISH = "en"
NAMES = {
    "ar": "Arabic", "de": "German", "en": REFERENCE, "es": "Spanish", "fr": "French",
    "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "pl": "Polish",
    "pt": "Portuguese", "ru": "Russian", "th": "Thai", "tr": "Turkish", "zh": "Chinese",
    "zh-tw": "Traditional Chinese",
}  # fmt: skip
HEADER = (
    "language", "original, %", "topic, own", "topic, English", "same, %",
    "pass, own", "pass, English", "posts",
)  # fmt: skip
REMARKS = (
    "original: sentences that find their English original first; same: likewise, of the sentences",
    "with a topic. topic: AUC × 100 of sentences with others of their topic, of the language and",
    f"English. pass: in 1,000 posts at the automatic threshold (rate {RATE:g}) of the bench's six",
    "articles, of the language and English. posts: everyday ones, none of a background of them.",
)


class JudgedTexts(NamedTuple):
    """The texts of one language; sentences are in the same order in every language."""

    originals: Sequence[str]
    sentences: Sequence[str]
    topics: Sequence[str]  # of the sentences
    posts: Sequence[str]  # everyday ones


def measure_judged(model: str, data: Path) -> ResultTable:
    languages = read_judged(data)
    english = EnglishReference(encoder.load(model, device="cpu"), languages)
    rows = [english.row(code, texts) for code, texts in languages.items()]
    return ResultTable("judged", f"Texts that did not train, model {model}", HEADER, rows, REMARKS)


def read_judged(data: Path) -> dict[str, JudgedTexts]:
    """The texts of a folder, by language."""
    originals, topics = by_language(data, "originals"), by_language(data, "topics")
    inside = set().union(*read_background_posts(data, SkippedRows()))
    streams = read_everyday(data, SkippedRows())
    return {
        code: JudgedTexts(
            [row["text"] for row in originals.get(code, ())],
            [row["text"] for row in sentences],
            [row["topic"] for row in sentences],
            sorted(streams.get(code, set()) - inside),
        )
        for code, sentences in sorted(topics.items())
    }


def by_language(data: Path, name: str) -> dict[str, list[dict[str, str]]]:
    """The rows of one file by language; only the ids that every language has, in one order."""
    file = data / "judged" / f"{name}.jsonl.gz"
    if not file.is_file():
        raise InputError(f"{file}: is missing; python -m train.languages.gather writes it")
    languages: dict[str, dict[str, dict[str, str]]] = {}
    for _, row in rows(file, SkippedRows()):
        languages.setdefault(row["lang"], {})[row["id"]] = row
    common = sorted(set.intersection(*map(set, languages.values())))
    return {code: [by_id[name] for name in common] for code, by_id in languages.items()}


class EnglishReference:
    """A model, and the English texts that each language is compared with."""

    def __init__(self, enc: encoder.Encoder, languages: Mapping[str, JudgedTexts]) -> None:
        self._enc, self._stories = enc, read_stories()
        self._originals = enc.articles(languages[ENGLISH].originals)
        self._sentences = enc.articles(languages[ENGLISH].sentences)
        self._english = self._articles(REFERENCE)

    def row(self, code: str, texts: JudgedTexts) -> tuple[Cell, ...]:
        """The figures of one language, in the order of the header."""
        posts = self._enc.posts(texts.sentences)
        return (
            NAMES[code],
            own_first(self._enc.posts(texts.originals), self._originals),
            topic_auc(posts, self._enc.articles(texts.sentences), texts.topics),
            topic_auc(posts, self._sentences, texts.topics),
            own_first(posts, self._sentences),
            self._passing(texts.posts, self._articles(NAMES[code])),
            self._passing(texts.posts, self._english),
            len(texts.posts),
        )

    def _articles(self, language: str) -> encoder.Embeddings:
        return self._enc.articles([story.article for story in self._stories[language]])

    def _passing(self, posts: Sequence[str], articles: encoder.Embeddings) -> float | None:
        if not posts:
            return None
        score = self._enc.posts(posts).similarity(articles)
        return 1000 * float((score >= self._enc.thresholds(articles, RATE)).mean())


def own_first(posts: encoder.Embeddings, articles: encoder.Embeddings) -> float | None:
    """The percentage of posts whose best article is the one with their index."""
    if not len(posts):
        return None
    best = posts.similarity(articles).argmax(axis=1)
    return 100 * float((best == np.arange(len(posts))).mean())


def topic_auc(
    posts: encoder.Embeddings, articles: encoder.Embeddings, topics: Sequence[str]
) -> float:
    """AUC × 100; odd sentences are posts, even ones articles, so none is compared with itself."""
    score = posts.similarity(articles)[1::2, ::2]
    same = np.equal.outer(topics[1::2], topics[::2])
    return 100 * auc_of(score[same], score[~same])
