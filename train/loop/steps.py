"""What training minimises: each function one idea, all on the cosines of unit vectors.

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
from train.loop.datasets import Dataset, Datasets, concat_rows, flat
from train.loop.token_rows import StepRows, TokenTable
from train.recipe import KINDS, Recipe
from train.teacher.store import TokenTargets

NEVER = -1e4
EPSILON = 0.1  # by how much a mined pair may be easier than the hardest of the other kind
THRESHOLD = 0.3  # around which `pairwise_sigmoid` parts the pairs


@dataclass(frozen=True, slots=True)
class ScoreBatch:
    """The scores of posts with articles, which belong together, and which must not be compared.

    `own[i, j]`: post i talks about article j. `spared[i, j]`: j is a copy of an article of i, or
    close to one, and never its negative.
    """

    score: Tensor  # [n, k]
    own: Tensor  # bool [n, k]
    spared: Tensor  # bool [n, k]

    @property
    def foreign(self) -> Tensor:  # bool [n, k]
        """The articles that count as a post's negatives."""
        return ~(self.own | self.spared)


def mined(score: Tensor, own: Tensor, foreign: Tensor) -> tuple[Tensor, Tensor]:
    """By multi-similarity, positives farther than the closest negative and vice versa: [n, k]."""
    farthest = score.masked_fill(~own, torch.inf).min(1, keepdim=True).values  # [n, 1]
    closest = score.masked_fill(~foreign, -torch.inf).max(1, keepdim=True).values  # [n, 1]
    return own & (score < closest + EPSILON), foreign & (score > farthest - EPSILON)


def triplet(batch: ScoreBatch, margin: float) -> Tensor:
    """The paper's: max(0, |a − p|² − |a − n|² + margin), the mean over mined pairs above 0.

    Every post is an anchor, then every article. Of unit vectors |a − b|² = 2 − 2·cos.
    """
    sides = (
        (batch.score, batch.own, batch.foreign), (batch.score.T, batch.own.T, batch.foreign.T)
    )  # fmt: skip
    return torch.stack([_one_side(*side, margin) for side in sides]).mean()


def _one_side(score: Tensor, own: Tensor, foreign: Tensor, margin: float) -> Tensor:
    with torch.no_grad():
        own, foreign = mined(score, own, foreign)
    gap = 2 * (score.unsqueeze(1) - score.unsqueeze(2)) + margin  # [n, own, foreign]
    gap = gap[own.unsqueeze(2) & foreign.unsqueeze(1)].relu()
    return gap.sum() / (gap > 0).sum().clamp(min=1)


def contrastive(batch: ScoreBatch, temperature: float) -> Tensor:
    """Every post picks its article among all, every article its post: the mean cross entropy."""
    score = (batch.score / temperature).masked_fill(batch.spared & ~batch.own, NEVER)
    return (_pick(score, batch.own) + _pick(score.T, batch.own.T)) / 2


def _pick(score: Tensor, own: Tensor) -> Tensor:
    has = own.any(1)
    chosen = score.log_softmax(1).masked_fill(~own, -torch.inf).logsumexp(1)  # [n]
    return -(chosen[has].sum() / has.sum().clamp(min=1))


def pairwise_sigmoid(batch: ScoreBatch, temperature: float) -> Tensor:
    """Every pair for itself, together or not: the cross entropy of all pairs, for each post."""
    logit = (batch.score - THRESHOLD) / temperature
    loss = F.binary_cross_entropy_with_logits(logit, batch.own.float(), reduction="none")
    return (loss * (batch.own | batch.foreign)).sum() / len(logit)


def imitate(vectors: Tensor, taught: Tensor) -> Tensor:
    """Distance to the teacher's vectors, one by one and between each other: both unit [n, d]."""
    alone = 1 - (vectors * taught).sum(1).mean()
    between: Tensor = (vectors @ vectors.T - taught @ taught.T).square().mean()
    return alone + 2 * between


def follow(states: Tensor, taught: Tensor) -> Tensor:
    """Distance of tokens' states to the teacher's: both [N, d]."""
    return 1 - F.cosine_similarity(states, taught, dim=1).mean()


def agree(score: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """KL divergence from the teacher's post × article scores, over articles and over posts."""
    return _diverge(score, taught, temperature) + _diverge(score.T, taught.T, temperature)


def _diverge(score: Tensor, taught: Tensor, temperature: float) -> Tensor:
    mine, theirs = (score / temperature).log_softmax(1), (taught / temperature).softmax(1)
    return F.kl_div(mine, theirs, reduction="batchmean")


CLOZE_MIN_TOKENS, CLOZE_MAX_TOKENS = 8, 28
CLOZE_ARTICLE = 100  # tokens that an article must have for a part to be taken out of it
CLOZE_CAP = 500
CAPS = (100, 200, 400)  # how much of the articles a step of pairs reads
SAME_STORY = 0.95  # the teacher's cosine from which two articles tell the same story
SAME_WORDS = 0.8  # the lexical one

Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    kind: str
    rows: StepRows
    loss: Tensor


class BatchSampler:
    """Draws the steps of a recipe from the datasets."""

    def __init__(
        self, recipe: Recipe, datasets: Datasets, directions: Tensor | None,
        targets: TokenTargets | None = None,
    ) -> None:  # fmt: skip
        self.recipe, self.datasets, self._targets = recipe, datasets, targets
        self._directions = directions  # [teacher, d]: from the teacher's vectors to the model's
        self._long = np.flatnonzero(np.diff(datasets.articles.tokens.offsets) > CLOZE_ARTICLE)
        self._kinds = [kind for kind in KINDS if recipe.has(kind) and self._count(kind)]
        if not self._kinds:
            kinds = ", ".join(filter(recipe.has, KINDS))
            raise InputError(f"data: holds nothing for the steps that the recipe asks for: {kinds}")
        weights = np.array([getattr(recipe.batches, kind) for kind in self._kinds])
        self._shares = weights / weights.sum()

    def step(self, table: TokenTable, number: int) -> Step:
        rng = np.random.default_rng([self.recipe.seed, number])
        kind = str(rng.choice(self._kinds, p=self._shares))
        if kind == "pairs":
            return self._pairs(table, rng)
        return self._cloze(table, rng) if kind == "cloze" else self._alone(table, rng, kind)

    def _count(self, kind: str) -> int:
        """How many texts or pairs there are for steps of one kind."""
        if kind == "pairs":
            heads = len(self.datasets.headlines) if self.recipe.batches.headline_size else 0
            return len(self.datasets.own) + heads
        return len(self._long) if kind == "cloze" else len(getattr(self.datasets, kind))

    def _alone(self, table: TokenTable, rng: np.random.Generator, kind: str) -> Step:
        """Texts alone, against the teacher's vectors of them."""
        every: Dataset = getattr(self.datasets, kind)
        batches = self.recipe.batches
        size = batches.article_size if kind == "articles" else batches.post_size
        as_posts = kind in ("posts", "sentences")
        dataset = concat_rows((every, drawn(rng, len(every), size)))
        places = dataset.places(batches.drop, rng)
        rows = table.rows(flat([x[at] for x, at in zip(dataset.texts(), places, strict=True)]))
        states, vectors = rows.read(0, Side.POST if as_posts else Side.ARTICLE)
        assert dataset.taught is not None
        taught, losses = self._project(dataset.taught).to(vectors.device), self.recipe.losses
        loss = losses.vectors * imitate(vectors, taught)
        if losses.neighbours:
            near = agree(vectors @ taught.T, taught @ taught.T, losses.temperature)
            loss = loss + losses.neighbours * near
        if losses.tokens and dataset.states is not None and (dataset.states >= 0).any():
            loss = loss + losses.tokens * self._token_loss(dataset, places, states)
        return Step(kind, rows, loss)

    def _token_loss(self, dataset: Dataset, places: list[I64], states: Tensor) -> Tensor:
        """The distance of the tokens' states [N, d] to the teacher's, where it has any."""
        assert dataset.states is not None
        assert self._targets is not None
        starts = np.repeat(dataset.states, list(map(len, places)))
        taught = [
            self._targets.read(int(start), ids, at)
            for start, ids, at in zip(dataset.states, dataset.texts(), places, strict=True)
            if start >= 0
        ]
        goal = self._project(torch.from_numpy(np.concatenate(taught))).to(states.device)
        return follow(states[torch.from_numpy(starts >= 0).to(states.device)], goal)

    def _pairs(self, table: TokenTable, rng: np.random.Generator) -> Step:
        """Posts and the articles they talk about, titles and their own bodies beside them."""
        drop = self.recipe.batches.drop
        posts, stories, own = self._draw_pairs(rng)
        cap = CAPS[rng.integers(len(CAPS))]
        rows = table.rows(posts.take(drop, rng), stories.take(drop, rng, cap))
        return Step("pairs", rows, self._loss(batch_of(rows, own, stories), posts, stories))

    def _draw_pairs(self, rng: np.random.Generator) -> tuple[Dataset, Dataset, Bool]:
        """Posts, articles, and which belong together: [n, k]."""
        datasets, batches = self.datasets, self.recipe.batches
        own = datasets.own[drawn(rng, len(datasets.own), batches.pair_size)]
        heads = drawn(rng, len(datasets.headlines), batches.headline_size)
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
        """The losses of the recipe, by their weights."""
        losses, heat = self.recipe.losses, self.recipe.losses.temperature
        loss = batch.score.new_zeros(())
        if losses.triplet:
            loss = loss + losses.triplet * triplet(batch, losses.margin)
        if losses.contrastive:
            loss = loss + losses.contrastive * contrastive(batch, heat)
        if losses.sigmoid:
            loss = loss + losses.sigmoid * pairwise_sigmoid(batch, heat)
        if losses.scores and posts.taught is not None and stories.taught is not None:
            lexical = torch.from_numpy(posts.words.dot(stories.words))  # [n, k]
            goal = (posts.taught @ stories.taught.T + lexical) / 2
            loss = loss + losses.scores * agree(batch.score, goal.to(batch.score.device), heat)
        return loss

    def _cloze(self, table: TokenTable, rng: np.random.Generator) -> Step:
        """A few words out of an article, to be found again among the rests of all articles."""
        losses = self.recipe.losses
        chosen = self._long[drawn(rng, len(self._long), self.recipe.batches.cloze_size)]
        dataset = concat_rows((self.datasets.articles, chosen))
        taken = dataset.take(0, rng, CLOZE_CAP)
        cut, rest = [], []
        for ids in np.split(taken.ids, taken.offsets[1:-1]):
            width = rng.integers(CLOZE_MIN_TOKENS, CLOZE_MAX_TOKENS)
            start = rng.integers(len(ids) - width)
            cut.append(ids[start : start + width])
            rest.append(np.delete(ids, np.s_[start : start + width]))
        rows = table.rows(flat(cut), flat(rest))
        own = np.eye(len(dataset), dtype=np.bool_)
        loss = contrastive(batch_of(rows, own, dataset), losses.temperature)
        return Step("cloze", rows, losses.cloze * loss)

    def _project(self, vectors: Tensor) -> Tensor:
        """The teacher's vectors in the directions of the model's, of length one."""
        assert self._directions is not None
        return torch.nn.functional.normalize(vectors @ self._directions, dim=1)


def batch_of(rows: StepRows, own: Bool, stories: Dataset) -> ScoreBatch:
    """The posts of a step scored with its articles; which belong together is given: [n, k]."""
    score = rows.embed(0, Side.POST) @ rows.embed(1, Side.ARTICLE).T
    alike = own.astype(np.float32) @ copies(stories).astype(np.float32) > 0
    masks = (torch.from_numpy(mask).to(score.device) for mask in (own, alike & ~own))
    return ScoreBatch(score, *masks)


def copies(stories: Dataset) -> Bool:
    """Which articles tell the same story, by title, by words or to the teacher: [k, k]."""
    words, taught = stories.words, stories.taught
    same: Bool = (stories.story[:, None] == stories.story) | (words.dot(words) > SAME_WORDS)
    return same if taught is None else same | (taught @ taught.T > SAME_STORY).numpy()


def drawn(rng: np.random.Generator, count: int, size: int) -> I64:
    """So many different numbers below count, or all of them."""
    return rng.choice(count, min(size, count), replace=False)
