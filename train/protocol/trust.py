"""Reliability of scores, recall by writing style, and the worst errors."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np

from encoder import Encoder
from encoder.model.weights import F32
from train.data.readers import SkippedRows, TrainingArticle, files, read_stories
from train.protocol.metrics import Bool, Interval
from train.protocol.peers import WORD, full
from train.protocol.sets import CrisisSet, PairSet, Scores, precision_of
from train.teacher.minilm import readable

STEP = 0.05
NORMAL = 1.959964  # standard deviations within which 95 % of a normal distribution lie


class Bin(NamedTuple):
    """The scores from `low` to `low` + STEP: the number of each kind, and the precision."""

    low: float
    on: int
    other: int
    precision: Interval


def share_of(hits: int, count: int) -> Interval:
    """A share with its 95 % Wilson interval; [0, 1] without observations."""
    if not count:
        return Interval(float("nan"), 0.0, 1.0)
    share, z2 = hits / count, NORMAL**2 / count
    centre = (share + z2 / 2) / (1 + z2)
    margin = sqrt(z2 * share * (1 - share) + z2**2 / 4) / (1 + z2)
    return Interval(share, max(0.0, centre - margin), min(1.0, centre + margin))


def reliability(on: F32, other: F32) -> list[Bin]:
    """Compute the precision of every non-empty bin, in a stream with one on-topic post in 26.

    The share and its interval are estimated in the data, then reweighted to the stream.
    """
    bin_numbers = [np.floor(np.asarray(kind, np.float64) / STEP + 1e-6) for kind in (on, other)]
    bins = []
    for number in np.unique(np.concatenate(bin_numbers)).tolist():
        on_count, other_count = (int((kind == number).sum()) for kind in bin_numbers)
        interval = share_of(on_count, on_count + other_count)
        precisions = (
            precision_of(share / max(len(on), 1), (1 - share) / max(len(other), 1))
            for share in (interval.value, interval.low, interval.high)
        )
        bins.append(Bin(round(number * STEP, 2), on_count, other_count, Interval(*precisions)))
    return bins


FEW_WORDS = 7
IN_THE_NEWS = 3  # occurrences; a rarer word may be a typo
LOWER = re.compile(r"(?<![\w'’@#])[a-z]{2,}(?:['’][a-z]+)*(?!\w)")
NEWS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
SPOKEN = re.compile(
    r"([a-z])\1\1|\w{2}in['’](?!\w)|\b(?:u|ur|r|lol|lmao|omg|omfg|wtf|smh|tho|cuz|gonna|wanna|gotta"
    r"|ain['’]?t|y['’]?all|dat|dis|dey|dem|da|finna|bruh|yo)\b",
    re.IGNORECASE,
)
RETWEET = re.compile(r"\bRT\b:?\s*@")


class GroupRecall(NamedTuple):
    posts: int
    recall: Interval


def news_words(data: Path) -> frozenset[str]:
    """Read the words of the articles in a folder."""
    counts: Counter[str] = Counter()
    for file in files(data, "articles").values():
        for story in read_stories(file, SkippedRows()):
            counts.update(map(plain, NEWS.findall(f"{story.title} {story.text}")))
    return frozenset(word for word, count in counts.items() if count >= IN_THE_NEWS)


def plain(word: str) -> str:
    """Lower-case a word, with ASCII apostrophes."""
    return word.replace("’", "'").lower()


def style_tests(news: frozenset[str]) -> dict[str, Callable[[str], bool]]:
    """Return tests of writing style by name."""

    def has_rare_word(post: str) -> bool:
        return any(plain(word) not in news for word in LOWER.findall(readable(post)))

    tests: dict[str, Callable[[str], bool]] = {
        "written as spoken (u, gonna, sooo)": lambda post: bool(SPOKEN.search(readable(post))),
        "no capital letter": lambda post: readable(post) == readable(post).lower(),
        f"at most {FEW_WORDS} words": lambda post: len(readable(post).split()) <= FEW_WORDS,
        "a hashtag": lambda post: "#" in readable(post),
        "a retweet": lambda post: bool(RETWEET.search(post)),
    }
    return {"a word that no article has": has_rare_word} | tests if news else tests


def recall_by_group(
    posts: Sequence[str], years: Iterable[int | None], matched: Bool, news: frozenset[str]
) -> Mapping[str, GroupRecall]:
    """Compute the recall of all posts, by year if known, and by writing style."""
    when = list(years)
    groups = {"all": np.ones(len(posts), np.bool_)}
    for year in sorted({year for year in when if year is not None}):
        groups[str(year)] = np.array([post_year == year for post_year in when], np.bool_)
    for name, has_style in style_tests(news).items():
        groups[name] = np.array([has_style(post) for post in posts], np.bool_)
    return {
        name: GroupRecall(int(own.sum()), share_of(int(matched[own].sum()), int(own.sum())))
        for name, own in groups.items()
        if own.any()
    }


MAX_ERRORS = 200  # of a set, by falling score
WORDS = 4
LEAD = 80  # characters of an article without a title
KINDS = ("a shared name", "a shared number", "another shared word", "a word of the post alone")
"""What the word with the highest contribution is in the article."""
INSIDE = re.compile(r"(?<=[a-z,;] )[A-Z]\w+")  # a capital inside a sentence


@dataclass(frozen=True, slots=True)
class FalsePositive:
    """A false positive."""

    score: float
    threshold: float
    title: str
    post: str
    words: list[tuple[str, float]]  # with the highest contributions
    kind: str  # of the word with the highest contribution, one of KINDS


def highest_errors(
    enc: Encoder,
    posts: Sequence[str],
    stories: Sequence[TrainingArticle],
    score: F32,
    thresholds: F32,
    right: Bool,
) -> list[FalsePositive]:
    """Return the highest-scoring false positives; `right` [posts, articles] marks true pairs."""
    passing = np.where((score >= thresholds) & ~right, score, -np.inf)
    best = passing.max(1)
    order = [
        i for i in np.argsort(-best, kind="stable")[:MAX_ERRORS].tolist() if np.isfinite(best[i])
    ]
    pairs = [(n, int(passing[i].argmax())) for n, i in enumerate(order)]
    worst = [posts[i] for i in order]
    contributions = enc.contributions(worst, enc.articles(stories), pairs)
    names = {k: names_of(stories[k]) for _, k in pairs}
    examples = []
    for (n, k), parts in zip(pairs, contributions, strict=True):
        words = heaviest(parts)
        kind = word_kind(words[0][0] if words else "", names[k])
        title = stories[k].title or stories[k].text[:LEAD]
        own = float(score[order[n], k]), float(thresholds[k])
        examples.append(FalsePositive(*own, title, worst[n], words, kind))
    return examples


def heaviest(parts: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the words with the highest total contributions."""
    total: dict[str, float] = {}
    for word, part in parts:
        total[word.lower()] = total.get(word.lower(), 0.0) + part
    return sorted(total.items(), key=lambda one: -one[1])[:WORDS]


def names_of(story: TrainingArticle) -> Mapping[str, bool]:
    """Map an article's words to whether each is a name: always capitalised."""
    text = full(story)
    inside = {word.lower() for word in INSIDE.findall(story.text)}
    small = {word for word in WORD.findall(text) if word == word.lower()}
    return {word: word in inside - small for word in map(str.lower, WORD.findall(text))}


def word_kind(word: str, names: Mapping[str, bool]) -> str:
    """Classify a word of a post by its occurrence in the article, as one of KINDS."""
    parts = [part for part in WORD.findall(word.lower()) if part in names]
    if not parts:
        return KINDS[3]
    if any(names[part] for part in parts):
        return KINDS[0]
    return KINDS[1] if any(c.isdigit() for part in parts for c in part) else KINDS[2]


def kinds_of(errors: Sequence[FalsePositive]) -> dict[str, int]:
    """Count the false positives of each kind."""
    counts = Counter(error.kind for error in errors)
    return {kind: counts[kind] for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Trust:
    """The trust report on one set."""

    reliability: Mapping[str, list[Bin]]
    groups: Mapping[str, GroupRecall]
    errors: Mapping[str, Mapping[str, int]]  # by kind, of the MAX_ERRORS highest false positives
    examples: list[FalsePositive]


@dataclass(frozen=True, slots=True)
class TrustReporter:
    """Makes trust reports."""

    encoder: Encoder
    rate: float
    news: frozenset[str]
    examples: int

    def pairs(self, score: F32, pairs: PairSet) -> Trust:
        """Report on pairs; a post is found if it reaches the threshold of its article."""
        label = pairs.label
        thresholds = self.encoder.thresholds(self.encoder.articles(pairs.stories), self.rate)
        years = pairs.years or (None,) * len(pairs.posts)
        hits: Bool = ((score >= thresholds) & label).max(1)
        groups = recall_by_group(pairs.posts, years, hits, self.news)
        errors = highest_errors(self.encoder, pairs.posts, pairs.stories, score, thresholds, label)
        bins = by_pairs(score, pairs)
        return Trust(bins, groups, {"other articles": kinds_of(errors)}, errors[: self.examples])

    def event(self, score: F32, crisis: CrisisSet) -> Trust:
        """Report on a crisis; a post is found if it reaches the threshold of any seed."""
        thresholds = self.encoder.thresholds(self.encoder.articles(crisis.seeds), self.rate)
        on, off = len(crisis.on), len(crisis.off)
        hits: Bool = (score[:on] >= thresholds).max(1)
        groups = recall_by_group(crisis.on, [None] * on, hits, self.news)
        errors = {}
        parts = {"off topic": crisis.off, "background": crisis.background}
        for (kind, posts), rows in zip(parts.items(), np.split(score[on:], [off]), strict=True):
            right = np.zeros(rows.shape, np.bool_)
            errors[kind] = highest_errors(
                self.encoder, posts, crisis.seeds, rows, thresholds, right
            )
        examples = [error for some in errors.values() for error in some[: self.examples]]
        counts = {kind: kinds_of(some) for kind, some in errors.items()}
        return Trust(by_kind(score, crisis), groups, counts, examples)


def by_pairs(score: F32, pairs: PairSet) -> dict[str, list[Bin]]:
    """Reliability of true pairs against all others."""
    label = pairs.label
    return {"other articles": reliability(score[label], score[~label])}


def by_kind(score: F32, crisis: CrisisSet) -> dict[str, list[Bin]]:
    """Reliability of on-topic posts against off-topic and background posts."""
    scores = Scores.of(score, crisis)
    others = {"off topic": scores.off, "background": scores.background}
    return {name: reliability(scores.on, other) for name, other in others.items() if len(other)}
