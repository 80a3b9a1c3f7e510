"""The split that tunes: what decides when to stop, and which λ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from encoder import Embeddings
from encoder.embeddings import unit_rows
from encoder.model.config import Side
from encoder.text.tokenizer import Tokenizer, Tokens
from train.data.corpus import pair_files, stem
from train.data.readers import Pair, Passed, Story, read_pairs
from train.data.splits import share, split_of_event, split_pairs, story_key
from train.model.export import vectors
from train.protocol.judge import Scores, judge_pairs
from train.protocol.peers import Vectors, pair
from train.protocol.ranking import auc_of
from train.protocol.sets import CrisisSet, PairSet, pair_set, read_crises

DEV_POSTS = 3_000  # of each kind, of a crisis that tunes
DEV_STORIES = 500  # that train, among which an article of dev is to be found

Ready = tuple[PairSet | CrisisSet, Embeddings, Embeddings]


class Dev:
    """Judges a model in training on the texts of the dev split."""

    def __init__(
        self, data: Path, reader: Tokenizer, mixes: tuple[float, ...], passed: Passed
    ) -> None:
        self._mixes = mixes
        self._sets: list[tuple[PairSet | CrisisSet, Tokens, Tokens]] = []
        for one in dev_sets(data, passed):
            stories = reader.articles([pair(story) for story in one.stories])
            self._sets.append((one, reader.posts(one.posts), stories))
        for event in dev_crises(data, passed):
            stories = reader.articles([pair(story) for story in event.seeds])
            self._sets.append((event, reader.posts(posts_of(event)), stories))

    def __len__(self) -> int:
        return len(self._sets)

    def judge(self, model: nn.Module) -> dict[str, float]:
        """The figures at the best λ; `score` is what decides, see `decisive`."""
        ready: list[Ready] = [
            (one, side(model, posts, Side.POST), side(model, stories, Side.ARTICLE))
            for one, posts, stories in self._sets
        ]
        return max((self._at(mix, ready) for mix in self._mixes), key=lambda f: f["score"])

    def _at(self, mix: float, ready: list[Ready]) -> dict[str, float]:
        figures: dict[str, float] = {}
        for one, posts, stories in ready:
            fixed = Fixed(Vectors(*(mixed_at(x, mix) for x in (posts, stories))))
            if isinstance(one, PairSet):
                figures[f"{one.name} mAP"] = judge_pairs(fixed, one)["mAP"]
                continue
            scores = Scores.of(fixed, one)
            for name, others in (("off", scores.off), ("background", scores.background)):
                if len(others):
                    figures[f"{one.name} AUC {name}"] = auc_of(scores.on, others)
        return {"score": decisive(figures), "mix": mix} | figures


def decisive(figures: Mapping[str, float]) -> float:
    """The mean mAP of the pairs; where there are none, the mean AUC of the crises.

    A crisis is one event: from one judgement to the next its AUC moves by more than models differ.
    """
    pairs = [value for name, value in figures.items() if name.endswith("mAP")]
    found = pairs or list(figures.values())
    return float(np.mean(found)) if found else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """A scorer of texts that are embedded already."""

    vectors: Vectors
    name: str = ""

    def prepare(self, posts: object, stories: object) -> Vectors:
        """What was embedded."""
        return self.vectors


def dev_sets(data: Path, passed: Passed) -> list[PairSet]:
    """The pairs of the dev split, among all articles of dev and some that train."""
    sets = []
    for file in pair_files(data):
        splits = split_pairs(read_pairs(file, passed))[0]
        if splits["dev"]:
            sets.append(pair_set(stem(file), splits["dev"], distractors(splits["train"])))
    return sets


def distractors(pairs: Sequence[Pair]) -> list[Story]:
    """Some articles of pairs, each once, the same ones in every run."""
    keyed = {story_key(one.story): one.story for one in pairs}
    return [keyed[key] for key in sorted(keyed, key=share)[:DEV_STORIES]]


def dev_crises(data: Path, passed: Passed) -> list[CrisisSet]:
    """The crises of the dev split, some of their posts."""
    if not (data / "crisis").is_dir():
        return []
    found = [one for one in read_crises(data, passed) if split_of_event(one.name) == "dev"]
    return [
        CrisisSet(
            one.name, one.seeds,
            *(tuple(sorted(x, key=share)[:DEV_POSTS]) for x in (one.on, one.off, one.background)),
        )
        for one in found
    ]  # fmt: skip


def posts_of(crisis: CrisisSet) -> tuple[str, ...]:
    """All its posts, in the order in which they are scored."""
    return (*crisis.on, *crisis.off, *crisis.background)


def side(model: nn.Module, tokens: Tokens, which: Side) -> Embeddings:
    """The embeddings of texts by a model in training."""
    device = str(next(model.parameters()).device)
    dense = unit_rows(vectors(model, tokens.ids, tokens.offsets, which, device))
    return Embeddings(dense, tokens.lexical, 0.0, "in training")


def mixed_at(made: Embeddings, mix: float) -> Embeddings:
    """The same embeddings with another λ."""
    return Embeddings(made.dense, made.lexical, mix, made.digest)
