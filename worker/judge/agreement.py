"""How far two people who labelled the same posts agree, beyond what chance alone would bring."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, get_args

from encoder.errors import InputError
from worker.judge.labels import Draw, Label, PostId, Verdict

MOST_JUDGES = 20  # those with most labels are compared: each with each


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two judges, the posts that both have labelled, and how often they say the same."""

    one: str
    other: str
    posts: int
    same: float  # the share
    kappa: float | None


def agreements(labels: Iterable[Label]) -> list[Agreement]:
    """Each pair of judges that has posts in common, by their names; labels of one event."""
    said: dict[str, dict[PostId, Verdict]] = defaultdict(dict)
    for label in labels:
        said[label.by][label.post_id] = label.label
    judges = sorted(sorted(said, key=lambda by: (-len(said[by]), by))[:MOST_JUDGES])
    found = []
    for one, other in combinations(judges, 2):
        if both := sorted(said[one].keys() & said[other].keys()):
            pair = [said[one][post] for post in both], [said[other][post] for post in both]
            same = sum(a == b for a, b in zip(*pair, strict=True)) / len(both)
            found.append(Agreement(one, other, len(both), same, cohens_kappa(*pair)))
    return found


def labels_by_person(labels: Iterable[Label]) -> list[dict[str, Any]]:
    """How many labels each person gave, which ones, and on posts that were drawn how."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for label in labels:
        found[label.by].update((label.label, label.drawn))
    names = (*get_args(Verdict), *get_args(Draw))
    return [{"by": by} | {name: found[by][name] for name in names} for by in sorted(found)]


def cohens_kappa(one: Sequence[str], other: Sequence[str]) -> float | None:
    """Cohen's κ of two lists of verdicts; None where both say one and the same of everything."""
    if not one or len(one) != len(other):
        raise InputError(f"labels: {len(one)} and {len(other)} of them; give both of every post")
    n = len(one)
    first, second = Counter(one), Counter(other)
    chance = sum(first[verdict] * second[verdict] for verdict in first) / n**2
    same = sum(a == b for a, b in zip(one, other, strict=True)) / n
    return (same - chance) / (1 - chance) if chance < 1 else None
