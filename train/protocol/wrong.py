"""What a model confuses: the wrong posts above their threshold, and the word that carried each."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from encoder import Encoder
from encoder.model.weights import F32
from train.data.readers import Story
from train.protocol.peers import WORD, full
from train.protocol.ranking import Bool

MOST = 200  # of a set, by falling score
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
    enc: Encoder, posts: Sequence[str], stories: Sequence[Story], score: F32, cuts: F32, right: Bool
) -> list[Wrong]:
    """The wrong posts that score highest, each once; `right` [posts, articles] are none."""
    passing = np.where((score >= cuts) & ~right, score, -np.inf)
    best = passing.max(1)
    order = [i for i in np.argsort(-best, kind="stable")[:MOST].tolist() if np.isfinite(best[i])]
    pairs = [(n, int(passing[i].argmax())) for n, i in enumerate(order)]
    chosen = [posts[i] for i in order]
    told = enc.contributions(chosen, enc.articles(stories), pairs)
    names = {k: names_of(stories[k]) for _, k in pairs}
    found = []
    for (n, k), parts in zip(pairs, told, strict=True):
        words = heaviest(parts)
        kind = carrier(words[0][0] if words else "", names[k])
        title = stories[k].title or stories[k].text[:LEAD]
        own = float(score[order[n], k]), float(cuts[k])
        found.append(Wrong(*own, title, chosen[n], words, kind))
    return found


def heaviest(parts: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The words that give most to a score, each once with all that it gives."""
    total: dict[str, float] = {}
    for word, part in parts:
        total[word.lower()] = total.get(word.lower(), 0.0) + part
    return sorted(total.items(), key=lambda one: -one[1])[:WORDS]


def names_of(story: Story) -> Mapping[str, bool]:
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
