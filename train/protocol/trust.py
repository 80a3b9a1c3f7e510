"""How far scores can be trusted: reliability, writing styles, and the worst errors."""

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
    """What scores from `low` to `low` + STEP: how many of each kind, and how precise that is."""

    low: float
    on: int
    other: int
    precision: Interval


def share_of(hits: int, count: int) -> Interval:
    """A share with its 95 % interval by Wilson; everything is possible where nothing was seen."""
    if not count:
        return Interval(float("nan"), 0.0, 1.0)
    share, doubt = hits / count, NORMAL**2 / count
    middle = (share + doubt / 2) / (1 + doubt)
    aside = sqrt(doubt * share * (1 - share) + doubt**2 / 4) / (1 + doubt)
    return Interval(share, max(0.0, middle - aside), min(1.0, middle + aside))


def reliability(on: F32, other: F32) -> list[Bin]:
    """Every bin that holds a score, as in a stream of which one in 26 is on topic.

    Of the scores in a bin the share that is on topic is drawn; both its ends are then weighed as
    the stream mixes the two kinds.
    """
    places = [np.floor(np.asarray(kind, np.float64) / STEP + 1e-6) for kind in (on, other)]
    bins = []
    for place in np.unique(np.concatenate(places)).tolist():
        mine, theirs = (int((kind == place).sum()) for kind in places)
        drawn = share_of(mine, mine + theirs)
        mixed = (
            precision_of(share / max(len(on), 1), (1 - share) / max(len(other), 1))
            for share in (drawn.value, drawn.low, drawn.high)
        )
        bins.append(Bin(round(place * STEP, 2), mine, theirs, Interval(*mixed)))
    return bins


FEW_WORDS = 7
IN_THE_NEWS = 3  # times in the news, or a word may be a slip of one article
LOWER = re.compile(r"(?<![\w'’@#])[a-z]{2,}(?:['’][a-z]+)*(?!\w)")
NEWS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
SPOKEN = re.compile(
    r"([a-z])\1\1|\w{2}in['’](?!\w)|\b(?:u|ur|r|lol|lmao|omg|omfg|wtf|smh|tho|cuz|gonna|wanna|gotta"
    r"|ain['’]?t|y['’]?all|dat|dis|dey|dem|da|finna|bruh|yo)\b",
    re.IGNORECASE,
)
RETWEET = re.compile(r"\bRT\b:?\s*@")


class GroupRecall(NamedTuple):
    """How many posts are written so, and which share of them was found."""

    posts: int
    recall: Interval


def news_words(data: Path) -> frozenset[str]:
    """The words that the articles of a folder use; none where there are no articles."""
    counts: Counter[str] = Counter()
    for file in files(data, "articles").values():
        for story in read_stories(file, SkippedRows()):
            counts.update(map(plain, NEWS.findall(f"{story.title} {story.text}")))
    return frozenset(word for word, count in counts.items() if count >= IN_THE_NEWS)


def plain(word: str) -> str:
    """A word in lower case, its apostrophe the typewriter's."""
    return word.replace("’", "'").lower()


def marks(news: frozenset[str]) -> dict[str, Callable[[str], bool]]:
    """What can be seen of how a post is written, by name."""

    def foreign(post: str) -> bool:
        return any(plain(word) not in news for word in LOWER.findall(readable(post)))

    tests: dict[str, Callable[[str], bool]] = {
        "written as spoken (u, gonna, sooo)": lambda post: bool(SPOKEN.search(readable(post))),
        "no capital letter": lambda post: readable(post) == readable(post).lower(),
        f"at most {FEW_WORDS} words": lambda post: len(readable(post).split()) <= FEW_WORDS,
        "a hashtag": lambda post: "#" in readable(post),
        "a retweet": lambda post: bool(RETWEET.search(post)),
    }
    return {"a word that no news has": foreign} | tests if news else tests


def recall_by_group(
    posts: Sequence[str], years: Iterable[int | None], matched: Bool, news: frozenset[str]
) -> Mapping[str, GroupRecall]:
    """The share of the posts that was found: of all, by year where that is known, by each mark."""
    when = list(years)
    groups = {"all": np.ones(len(posts), np.bool_)}
    for year in sorted({year for year in when if year is not None}):
        groups[str(year)] = np.array([one == year for one in when], np.bool_)
    for name, shows in marks(news).items():
        groups[name] = np.array([shows(post) for post in posts], np.bool_)
    return {
        name: GroupRecall(int(own.sum()), share_of(int(matched[own].sum()), int(own.sum())))
        for name, own in groups.items()
        if own.any()
    }


MAX_WRONG = 200  # of a set, by falling score
WORDS = 4
LEAD = 80  # characters of an article without a title
KINDS = ("a shared name", "a shared number", "another shared word", "a word of the post alone")
"""What the word that gives most to the score is in the article."""
INSIDE = re.compile(r"(?<=[a-z,;] )[A-Z]\w+")  # a capital that no sentence begins with


@dataclass(frozen=True, slots=True)
class Wrong:
    """A post that reaches the threshold of an article that it is not about."""

    score: float
    threshold: float
    title: str
    post: str
    words: list[tuple[str, float]]  # those that give most to the score
    carrier: str  # one of KINDS


def highest_wrong(
    enc: Encoder,
    posts: Sequence[str],
    stories: Sequence[TrainingArticle],
    score: F32,
    cuts: F32,
    right: Bool,
) -> list[Wrong]:
    """The wrong posts that score highest, each once; `right` [posts, articles] are none."""
    passing = np.where((score >= cuts) & ~right, score, -np.inf)
    best = passing.max(1)
    order = [
        i for i in np.argsort(-best, kind="stable")[:MAX_WRONG].tolist() if np.isfinite(best[i])
    ]
    pairs = [(n, int(passing[i].argmax())) for n, i in enumerate(order)]
    chosen = [posts[i] for i in order]
    contributions = enc.contributions(chosen, enc.articles(stories), pairs)
    names = {k: names_of(stories[k]) for _, k in pairs}
    examples = []
    for (n, k), parts in zip(pairs, contributions, strict=True):
        words = heaviest(parts)
        kind = carrier(words[0][0] if words else "", names[k])
        title = stories[k].title or stories[k].text[:LEAD]
        own = float(score[order[n], k]), float(cuts[k])
        examples.append(Wrong(*own, title, chosen[n], words, kind))
    return examples


def heaviest(parts: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The words that give most to a score, each once with all that it gives."""
    total: dict[str, float] = {}
    for word, part in parts:
        total[word.lower()] = total.get(word.lower(), 0.0) + part
    return sorted(total.items(), key=lambda one: -one[1])[:WORDS]


def names_of(story: TrainingArticle) -> Mapping[str, bool]:
    """The words of an article, and whether each is a name: with a capital wherever it stands."""
    text = full(story)
    inside = {word.lower() for word in INSIDE.findall(story.text)}
    small = {word for word in WORD.findall(text) if word == word.lower()}
    return {word: word in inside - small for word in map(str.lower, WORD.findall(text))}


def carrier(word: str, names: Mapping[str, bool]) -> str:
    """What a word of a post is in the article, one of KINDS."""
    parts = [part for part in WORD.findall(word.lower()) if part in names]
    if not parts:
        return KINDS[3]
    if any(names[part] for part in parts):
        return KINDS[0]
    return KINDS[1] if any(c.isdigit() for part in parts for c in part) else KINDS[2]


def kinds_of(wrong: Sequence[Wrong]) -> dict[str, int]:
    """How many of them are of each kind."""
    counts = Counter(one.carrier for one in wrong)
    return {kind: counts[kind] for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Trust:
    """What can be trusted on one set; the wrong ones by where they come from."""

    reliability: Mapping[str, list[Bin]]
    groups: Mapping[str, GroupRecall]
    wrong: Mapping[str, Mapping[str, int]]  # number of each kind among the 200 highest
    examples: list[Wrong]


@dataclass(frozen=True, slots=True)
class Truster:
    """Writes a trust report, for a rate of the thresholds and a number of examples."""

    encoder: Encoder
    rate: float
    news: frozenset[str]
    examples: int

    def pairs(self, score: F32, pairs: PairSet) -> Trust:
        """A set of pairs: a post is found where it reaches an article of its own."""
        label = pairs.label
        cuts = self.encoder.thresholds(self.encoder.articles(pairs.stories), self.rate)
        years = pairs.years or (None,) * len(pairs.posts)
        reached: Bool = ((score >= cuts) & label).max(1)
        groups = recall_by_group(pairs.posts, years, reached, self.news)
        wrong = highest_wrong(self.encoder, pairs.posts, pairs.stories, score, cuts, label)
        bins = by_pairs(score, pairs)
        return Trust(bins, groups, {"other articles": kinds_of(wrong)}, wrong[: self.examples])

    def event(self, score: F32, crisis: CrisisSet) -> Trust:
        """A crisis: a post is found where it reaches one of the event's reports."""
        cuts = self.encoder.thresholds(self.encoder.articles(crisis.seeds), self.rate)
        on, off = len(crisis.on), len(crisis.off)
        reached: Bool = (score[:on] >= cuts).max(1)
        groups = recall_by_group(crisis.on, [None] * on, reached, self.news)
        wrong = {}
        parts = {"off topic": crisis.off, "background": crisis.background}
        for (kind, posts), rows in zip(parts.items(), np.split(score[on:], [off]), strict=True):
            right = np.zeros(rows.shape, np.bool_)
            wrong[kind] = highest_wrong(self.encoder, posts, crisis.seeds, rows, cuts, right)
        examples = [one for some in wrong.values() for one in some[: self.examples]]
        counts = {kind: kinds_of(some) for kind, some in wrong.items()}
        return Trust(by_kind(score, crisis), groups, counts, examples)


def by_pairs(score: F32, pairs: PairSet) -> dict[str, list[Bin]]:
    """The pairs that belong together against all others."""
    label = pairs.label
    return {"other articles": reliability(score[label], score[~label])}


def by_kind(score: F32, crisis: CrisisSet) -> dict[str, list[Bin]]:
    """The posts on topic against those off topic, and against the background."""
    scores = Scores.of(score, crisis)
    others = {"off topic": scores.off, "background": scores.background}
    return {name: reliability(scores.on, other) for name, other in others.items() if len(other)}
