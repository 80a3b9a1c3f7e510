"""The dev split, which decides when to stop and which λ to use."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from torch import nn

from encoder.embeddings import Embeddings
from encoder.model.config import Side
from encoder.text.tokenizer import Tokenizer, Tokens
from train.data.readers import (
    Pair,
    SkippedRows,
    TrainingArticle,
    pair_sets,
    share,
    split_of_event,
    split_pairs,
    story_key,
)
from train.model.export import embed_tokens
from train.protocol.metrics import ap_of
from train.protocol.peers import similarity
from train.protocol.sets import CrisisSet, PairSet, Scores, crisis_figures, pair_set, read_crises
from train.recipe import Recipe

DEV_POSTS = 3_000  # of each kind, per crisis
CRISIS = ("AUC off", "AUC background", "P@R80")
DEV_STORIES = 500  # training articles as distractors


class Dev:
    """Evaluates a model on the dev split."""

    def __init__(self, data: Path, reader: Tokenizer, recipe: Recipe, skips: SkippedRows) -> None:
        self._mixes, self._lead = recipe.mix, recipe.model.lead
        self._sets: list[tuple[PairSet | CrisisSet, Tokens, Tokens]] = [
            (pairs, reader.posts(pairs.posts), reader.articles(pairs.stories))
            for pairs in dev_pairs(data, skips)
        ]
        for crisis in dev_crises(data, skips):
            self._sets.append((crisis, reader.posts(crisis.posts), reader.articles(crisis.seeds)))

    def __len__(self) -> int:
        return len(self._sets)

    @property
    def sets(self) -> list[PairSet | CrisisSet]:
        return [dev_set for dev_set, _, _ in self._sets]

    def judge(self, model: nn.Module) -> dict[str, float]:
        """Return the figures at the best λ; `score` is the criterion."""

        def rows(tokens: Tokens, side: Side) -> Embeddings:
            return embed_tokens(model, tokens, side, self._lead)

        ready = [
            (dev_set, rows(posts, Side.POST), rows(stories, Side.ARTICLE))
            for dev_set, posts, stories in self._sets
        ]
        return max((figures_at(mix, ready) for mix in self._mixes), key=lambda f: f["score"])


def figures_at(
    mix: float, ready: Sequence[tuple[PairSet | CrisisSet, Embeddings, Embeddings]]
) -> dict[str, float]:
    """Compute the figures of all sets at one λ."""
    figures: dict[str, float] = {}
    for dev_set, posts, stories in ready:
        score = similarity(posts, stories, mix)
        if isinstance(dev_set, PairSet):
            figures[f"{dev_set.name} mAP"] = ap_of(score, dev_set.label)
            continue
        crisis = crisis_figures(Scores.of(score, dev_set))
        figures |= {f"{dev_set.name} {name}": crisis[name] for name in CRISIS if name in crisis}
    return {"score": decisive(figures), "mix": mix} | figures


def decisive(figures: Mapping[str, float]) -> float:
    """Return the mean mAP of the pairs, or without pairs the mean AUC of the crises.

    The AUC of a single event varies more between evaluations than between models.
    """
    pairs = [value for name, value in figures.items() if name.endswith("mAP")]
    values = pairs or [value for name, value in figures.items() if " AUC " in name]
    return float(np.mean(values)) if values else 0.0


def dev_pairs(data: Path, skips: SkippedRows) -> list[PairSet]:
    """Read the pairs of the dev split, with training articles as distractors."""
    splits = ((name, split_pairs(pairs)) for name, pairs in pair_sets(data, skips))
    return [
        pair_set(name, split["dev"], distractors(split["train"]))
        for name, split in splits
        if split["dev"]
    ]


def distractors(pairs: Sequence[Pair]) -> list[TrainingArticle]:
    """Select a fixed sample of distinct articles."""
    by_key = {story_key(pair.story): pair.story for pair in pairs}
    return [by_key[key] for key in sorted(by_key, key=share)[:DEV_STORIES]]


def dev_crises(data: Path, skips: SkippedRows) -> list[CrisisSet]:
    """Read the crises of the dev split, with a fixed sample of their posts."""
    return [
        CrisisSet(
            crisis.name, crisis.seeds,
            *(
                tuple(sorted(posts, key=share)[:DEV_POSTS])
                for posts in (crisis.on, crisis.off, crisis.background)
            ),
        )
        for crisis in read_crises(data, skips)
        if split_of_event(crisis.name) == "dev"
    ]  # fmt: skip
