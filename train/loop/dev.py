"""The dev split, which decides when to stop and which λ to use."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from torch import nn

from encoder.embeddings import Embeddings
from encoder.model.config import Side
from encoder.model.weights import F32
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
from train.recipe import TEACHER, Recipe
from train.teacher.star import StarTeacher

DEV_POSTS = 3_000  # of each kind, per crisis
CRISIS = ("AUC off", "AUC background", "P@R80")
DEV_STORIES = 500  # training articles as distractors


class Dev:
    """Evaluates a model on the dev split."""

    def __init__(
        self, sets: Sequence[PairSet | CrisisSet], reader: Tokenizer, recipe: Recipe,
        teacher: StarTeacher | None,
    ) -> None:  # fmt: skip
        self.sets, self._mixes, self._lead = sets, recipe.mix, recipe.model.lead
        self._posts = [reader.posts(one.posts) for one in sets]
        stories = [one.seeds if isinstance(one, CrisisSet) else one.stories for one in sets]
        self._articles = [reader.articles(some) for some in stories]
        self._read: list[F32] = []  # the vectors of articles, if the teacher reads them
        if teacher and recipe.articles == TEACHER:
            self._read = [teacher.read_articles(some) for some in stories]

    def __len__(self) -> int:
        return len(self.sets)

    def judge(self, model: nn.Module) -> dict[str, float]:
        """Return the figures at the best λ; `score` is the criterion."""

        def rows(tokens: Tokens, side: Side) -> Embeddings:
            return embed_tokens(model, tokens, side, self._lead)

        posts = [rows(tokens, Side.POST) for tokens in self._posts]
        if self._read:
            stories = [
                Embeddings(dense, tokens.lexical, 0.0, "not served")
                for dense, tokens in zip(self._read, self._articles, strict=True)
            ]
        else:
            stories = [rows(tokens, Side.ARTICLE) for tokens in self._articles]
        ready = list(zip(self.sets, posts, stories, strict=True))
        return max((figures_at(mix, ready) for mix in self._mixes), key=lambda f: f["score"])


def dev_sets(data: Path, skips: SkippedRows) -> list[PairSet | CrisisSet]:
    """Read the pairs and the crises of the dev split."""
    return [*dev_pairs(data, skips), *dev_crises(data, skips)]


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
