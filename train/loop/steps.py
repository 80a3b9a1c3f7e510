"""Losses on cosines of unit vectors, and the sampler of training steps.

In the shapes n is the number of posts of a batch, k of its articles, d the width of a vector.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from encoder.errors import InputError
from encoder.model.config import Side
from encoder.model.weights import I64
from train.loop.datasets import Dataset, Datasets, concat_rows
from train.loop.token_rows import StepRows, TokenTable
from train.recipe import KINDS, TEACHER, Recipe

NEVER = -1e4
EPSILON = 0.1  # how much easier a mined pair may be than the hardest of the other kind
THRESHOLD = 0.3  # the decision boundary of `pairwise_sigmoid`


@dataclass(frozen=True, slots=True)
class ScoreBatch:
    """The scores of posts with articles, and masks of positives and near-copies.

    `own[i, j]`: post i is about article j. `near_copy[i, j]`: j is a near-copy of an article of i,
    so it is not a negative.
    """

    score: Tensor  # [n, k]
    own: Tensor  # bool [n, k]
    near_copy: Tensor  # bool [n, k]

    @property
    def negative(self) -> Tensor:  # bool [n, k]
        """The negatives of each post."""
        return ~(self.own | self.near_copy)


def mine_pairs(score: Tensor, own: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    """Mine positives farther than the closest negative, and vice versa: [n, k]."""
    farthest = score.masked_fill(~own, torch.inf).min(1, keepdim=True).values  # [n, 1]
    closest = score.masked_fill(~negative, -torch.inf).max(1, keepdim=True).values  # [n, 1]
    return own & (score < closest + EPSILON), negative & (score > farthest - EPSILON)


def triplet(batch: ScoreBatch, margin: float) -> Tensor:
    """The paper's loss: max(0, |a − p|² − |a − n|² + margin), mean over mined pairs above 0.

    Every post is an anchor, then every article. For unit vectors |a − b|² = 2 − 2·cos.
    """
    sides = (
        (batch.score, batch.own, batch.negative), (batch.score.T, batch.own.T, batch.negative.T)
    )  # fmt: skip
    return torch.stack([_one_side(*side, margin) for side in sides]).mean()


def _one_side(score: Tensor, own: Tensor, negative: Tensor, margin: float) -> Tensor:
    with torch.no_grad():
        own, negative = mine_pairs(score, own, negative)
    gap = 2 * (score.unsqueeze(1) - score.unsqueeze(2)) + margin  # [n, own, negative]
    gap = gap[own.unsqueeze(2) & negative.unsqueeze(1)].relu()
    return gap.sum() / (gap > 0).sum().clamp(min=1)


def contrastive(batch: ScoreBatch, temperature: float) -> Tensor:
    """Cross entropy of each post's article among all articles, and of each article's post."""
    score = (batch.score / temperature).masked_fill(batch.near_copy & ~batch.own, NEVER)
    return (_pick(score, batch.own) + _pick(score.T, batch.own.T)) / 2


def _pick(score: Tensor, own: Tensor) -> Tensor:
    has = own.any(1)
    own_share = score.log_softmax(1).masked_fill(~own, -torch.inf).logsumexp(1)  # [n]
    return -(own_share[has].sum() / has.sum().clamp(min=1))


def pairwise_sigmoid(batch: ScoreBatch, temperature: float) -> Tensor:
    """Binary cross entropy of all pairs, per post."""
    logit = (batch.score - THRESHOLD) / temperature
    loss = F.binary_cross_entropy_with_logits(logit, batch.own.float(), reduction="none")
    return (loss * (batch.own | batch.negative)).sum() / len(logit)


def vector_loss(vectors: Tensor, teacher: Tensor) -> Tensor:
    """Distance of vectors and of their similarities to the teacher's: both unit [n, d]."""
    alone = 1 - (vectors * teacher).sum(1).mean()
    between: Tensor = (vectors @ vectors.T - teacher @ teacher.T).square().mean()
    return alone + 2 * between


def agree(score: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """KL divergence from the teacher's scores, over articles and over posts."""
    return _diverge(score, teacher, temperature) + _diverge(score.T, teacher.T, temperature)


def _diverge(score: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    mine, theirs = (score / temperature).log_softmax(1), (teacher / temperature).softmax(1)
    return F.kl_div(mine, theirs, reduction="batchmean")


CAPS = (100, 200, 400)  # tokens of an article in a step of pairs
SAME_STORY = 0.95  # the teacher's least cosine of two articles on the same story
SAME_WORDS = 0.8  # the least lexical cosine

Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    kind: str
    rows: StepRows
    loss: Tensor


class BatchSampler:
    """Samples the training steps of a recipe."""

    def __init__(self, recipe: Recipe, datasets: Datasets, directions: Tensor | None) -> None:
        self.recipe, self.datasets = recipe, datasets
        self._directions = directions  # [teacher, d]: from the teacher's vectors to the model's
        self._kinds = [kind for kind in KINDS if recipe.has(kind) and self._count(kind)]
        if not self._kinds:
            kinds = ", ".join(filter(recipe.has, KINDS))
            raise InputError(f"data: no texts for the recipe's steps: {kinds}")
        weights = np.array([getattr(recipe.batches, kind) for kind in self._kinds])
        self._shares = weights / weights.sum()

    def step(self, table: TokenTable, number: int) -> Step:
        rng = np.random.default_rng([self.recipe.seed, number])
        kind = str(rng.choice(self._kinds, p=self._shares))
        if kind == "pairs":
            return self._pair_step(table, rng)
        return self._text_step(table, rng, kind)

    def _count(self, kind: str) -> int:
        """Count the texts or pairs for steps of one kind."""
        if kind == "pairs":
            heads = len(self.datasets.headlines) if self.recipe.batches.headline_size else 0
            return len(self.datasets.own) + heads
        return len(getattr(self.datasets, kind))

    def _text_step(self, table: TokenTable, rng: np.random.Generator, kind: str) -> Step:
        """Train texts on the teacher's vectors."""
        every: Dataset = getattr(self.datasets, kind)
        batches = self.recipe.batches
        size = batches.article_size if kind == "articles" else batches.post_size
        as_posts = kind in ("posts", "sentences")
        dataset = concat_rows((every, sample(rng, len(every), size)))
        rows = StepRows(table, [dataset.take(batches.drop, rng)])
        vectors = rows.embed(0, Side.POST if as_posts else Side.ARTICLE)
        assert dataset.teacher is not None
        teacher, losses = self._project(dataset.teacher).to(vectors.device), self.recipe.losses
        loss = losses.vectors * vector_loss(vectors, teacher)
        if losses.neighbours:
            near = agree(vectors @ teacher.T, teacher @ teacher.T, losses.temperature)
            loss = loss + losses.neighbours * near
        if losses.errors and len(self.datasets.articles):
            articles = self.datasets.articles
            stories = sample(rng, len(articles), batches.article_size)
            read = self._article_vectors(articles, stories).to(vectors.device)
            loss = loss + losses.errors * ((vectors - teacher) @ read.T).square().mean()
        return Step(kind, rows, loss)

    def _article_vectors(self, dataset: Dataset, rows: I64) -> Tensor:
        """The teacher's unit vectors of some articles: [n, d]."""
        assert dataset.teacher is not None
        return self._project(dataset.teacher[torch.from_numpy(rows)])

    def _pair_step(self, table: TokenTable, rng: np.random.Generator) -> Step:
        """Train pairs of post and article, and of headline and body."""
        drop = self.recipe.batches.drop
        posts, stories, own = self._draw_pairs(rng)
        cap = CAPS[rng.integers(len(CAPS))]
        if self.recipe.articles == TEACHER:
            rows = StepRows(table, [posts.take(drop, rng)])
            read = self._article_vectors(stories, np.arange(len(stories)))
        else:
            rows = StepRows(table, [posts.take(drop, rng), stories.take(drop, rng, cap)])
            read = rows.embed(1, Side.ARTICLE)
        vectors = rows.embed(0, Side.POST)
        score = vectors @ read.to(vectors.device).T
        return Step("pairs", rows, self._loss(batch_of(score, own, stories), posts, stories))

    def _draw_pairs(self, rng: np.random.Generator) -> tuple[Dataset, Dataset, Bool]:
        """Sample posts, articles and the mask of positives [n, k]."""
        datasets, batches = self.datasets, self.recipe.batches
        own = datasets.own[sample(rng, len(datasets.own), batches.pair_size)]
        heads = sample(rng, len(datasets.headlines), batches.headline_size)
        articles, place = np.unique(own[:, 1], return_inverse=True)
        posts = concat_rows(
            (datasets.pair_posts, own[:, 0]), (datasets.posts, datasets.headlines[heads])
        )
        stories = concat_rows((datasets.pair_articles, articles), (datasets.bodies, heads))
        label = np.concatenate([place, len(articles) + np.arange(len(heads))])
        belongs = np.zeros((len(label), len(articles) + len(heads)), np.bool_)
        belongs[np.arange(len(label)), label] = True
        return posts, stories, belongs

    def _loss(self, batch: ScoreBatch, posts: Dataset, stories: Dataset) -> Tensor:
        losses, heat = self.recipe.losses, self.recipe.losses.temperature
        loss = batch.score.new_zeros(())
        if losses.triplet:
            loss = loss + losses.triplet * triplet(batch, losses.margin)
        if losses.contrastive:
            loss = loss + losses.contrastive * contrastive(batch, heat)
        if losses.sigmoid:
            loss = loss + losses.sigmoid * pairwise_sigmoid(batch, heat)
        if losses.scores and posts.teacher is not None and stories.teacher is not None:
            lexical = torch.from_numpy(posts.words.dot(stories.words))  # [n, k]
            goal = (posts.teacher @ stories.teacher.T + lexical) / 2
            loss = loss + losses.scores * agree(batch.score, goal.to(batch.score.device), heat)
        if losses.errors and posts.teacher is not None and stories.teacher is not None:
            dense = (posts.teacher @ stories.teacher.T).to(batch.score.device)
            loss = loss + losses.errors * (batch.score - dense).square().mean()
        return loss

    def _project(self, vectors: Tensor) -> Tensor:
        """Project the teacher's vectors to unit vectors of the model's width."""
        assert self._directions is not None
        return torch.nn.functional.normalize(vectors @ self._directions, dim=1)


def batch_of(score: Tensor, own: Bool, stories: Dataset) -> ScoreBatch:
    """The scores [n, k] of a step's posts with its articles; `own` marks the positives."""
    alike = own.astype(np.float32) @ copies(stories).astype(np.float32) > 0
    masks = (torch.from_numpy(mask).to(score.device) for mask in (own, alike & ~own))
    return ScoreBatch(score, *masks)


def copies(stories: Dataset) -> Bool:
    """Mark near-copies among articles, by title, words or teacher vectors: [k, k]."""
    words, teacher = stories.words, stories.teacher
    same: Bool = (stories.story[:, None] == stories.story) | (words.dot(words) > SAME_WORDS)
    return same if teacher is None else same | (teacher @ teacher.T > SAME_STORY).numpy()


def sample(rng: np.random.Generator, count: int, size: int) -> I64:
    """Sample `size` distinct integers below `count`, or all of them."""
    return rng.choice(count, min(size, count), replace=False)
