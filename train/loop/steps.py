"""One step of each kind: which texts it reads, and the loss of what the model makes of them.

What a step draws depends on the seed and the step's number alone, so that a run that was stopped
goes on as if it had not been.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from encoder.errors import InputError
from encoder.model.config import Side
from encoder.model.weights import I64
from train.loop.lessons import Lessons, Shelf, flat, pile
from train.loop.losses import Batch, agree, contrastive, imitate, pairwise_sigmoid, triplet
from train.loop.token_rows import StepRows, TokenTable
from train.recipe import KINDS, Recipe

CLOZE_SHORTEST, CLOZE_LONGEST = 8, 28
CLOZE_ARTICLE = 100  # tokens that an article must have for a part to be taken out of it
CLOZE_CAP = 500
CAPS = (100, 200, 400)  # how much of the articles a step of pairs reads
SAME_STORY = 0.95  # the teacher's cosine from which two articles tell the same story
SAME_WORDS = 0.8  # the lexical one

Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """The rows that a step trains, and its loss."""

    kind: str
    rows: StepRows
    loss: Tensor


class Drill:
    """Draws the steps of a recipe from the lessons."""

    def __init__(self, recipe: Recipe, lessons: Lessons, directions: Tensor | None) -> None:
        self.recipe, self.lessons = recipe, lessons
        self._directions = directions  # [teacher, d]: from the teacher's vectors to the model's
        self._long = np.flatnonzero(np.diff(lessons.articles.tokens.offsets) > CLOZE_ARTICLE)
        self._kinds = [kind for kind in KINDS if recipe.asked(kind) and self._count(kind)]
        if not self._kinds:
            asked = ", ".join(filter(recipe.asked, KINDS))
            raise InputError(f"data: holds nothing for the steps that the recipe asks for: {asked}")
        weights = np.array([getattr(recipe.batches, kind) for kind in self._kinds])
        self._shares = weights / weights.sum()

    def step(self, table: TokenTable, number: int) -> Step:
        """The step of this number."""
        rng = np.random.default_rng([self.recipe.seed, number])
        kind = str(rng.choice(self._kinds, p=self._shares))
        if kind == "pairs":
            return self._pairs(table, rng)
        return self._cloze(table, rng) if kind == "cloze" else self._alone(table, rng, kind)

    def _count(self, kind: str) -> int:
        """How many texts or pairs there are for steps of one kind."""
        if kind == "pairs":
            heads = len(self.lessons.headlines) if self.recipe.batches.headline_size else 0
            return len(self.lessons.own) + heads
        return len(self._long) if kind == "cloze" else len(getattr(self.lessons, kind))

    def _alone(self, table: TokenTable, rng: np.random.Generator, kind: str) -> Step:
        """Texts alone, against the teacher's vectors of them."""
        every: Shelf = getattr(self.lessons, kind)
        batches = self.recipe.batches
        size = batches.article_size if kind == "articles" else batches.post_size
        as_posts = kind in ("posts", "sentences")
        shelf = pile((every, drawn(rng, len(every), size)))
        rows = table.rows(shelf.take(batches.drop, rng))
        found = rows.embed(0, Side.POST if as_posts else Side.ARTICLE)
        assert shelf.taught is not None
        taught, losses = self._project(shelf.taught).to(found.device), self.recipe.losses
        loss = losses.vectors * imitate(found, taught)
        if losses.neighbours:
            near = agree(found @ taught.T, taught @ taught.T, losses.temperature)
            loss = loss + losses.neighbours * near
        return Step(kind, rows, loss)

    def _pairs(self, table: TokenTable, rng: np.random.Generator) -> Step:
        """Posts and the articles they talk about, titles and their own bodies beside them."""
        drop = self.recipe.batches.drop
        posts, stories, own = self._draw_pairs(rng)
        cap = CAPS[rng.integers(len(CAPS))]
        rows = table.rows(posts.take(drop, rng), stories.take(drop, rng, cap))
        return Step("pairs", rows, self._loss(batch_of(rows, own, stories), posts, stories))

    def _draw_pairs(self, rng: np.random.Generator) -> tuple[Shelf, Shelf, Bool]:
        """Posts, articles, and which belong together: [n, k]."""
        lessons, batches = self.lessons, self.recipe.batches
        own = lessons.own[drawn(rng, len(lessons.own), batches.pair_size)]
        heads = drawn(rng, len(lessons.headlines), batches.headline_size)
        articles, place = np.unique(own[:, 1], return_inverse=True)
        posts = pile((lessons.pair_posts, own[:, 0]), (lessons.posts, lessons.headlines[heads]))
        stories = pile((lessons.pair_articles, articles), (lessons.bodies, heads))
        label = np.concatenate([place, len(articles) + np.arange(len(heads))])
        belongs = np.zeros((len(label), len(articles) + len(heads)), np.bool_)
        belongs[np.arange(len(label)), label] = True
        return posts, stories, belongs

    def _loss(self, batch: Batch, posts: Shelf, stories: Shelf) -> Tensor:
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
            wanted = (posts.taught @ stories.taught.T + lexical) / 2
            loss = loss + losses.scores * agree(batch.score, wanted.to(batch.score.device), heat)
        return loss

    def _cloze(self, table: TokenTable, rng: np.random.Generator) -> Step:
        """A few words out of an article, to be found again among the rests of all articles."""
        losses = self.recipe.losses
        chosen = self._long[drawn(rng, len(self._long), self.recipe.batches.cloze_size)]
        shelf = pile((self.lessons.articles, chosen))
        taken = shelf.take(0, rng, CLOZE_CAP)
        cut, rest = [], []
        for ids in np.split(taken.ids, taken.offsets[1:-1]):
            width = rng.integers(CLOZE_SHORTEST, CLOZE_LONGEST)
            start = rng.integers(len(ids) - width)
            cut.append(ids[start : start + width])
            rest.append(np.delete(ids, np.s_[start : start + width]))
        rows = table.rows(flat(cut), flat(rest))
        own = np.eye(len(shelf), dtype=np.bool_)
        loss = contrastive(batch_of(rows, own, shelf), losses.temperature)
        return Step("cloze", rows, losses.cloze * loss)

    def _project(self, vectors: Tensor) -> Tensor:
        """The teacher's vectors in the directions of the model's, of length one."""
        assert self._directions is not None
        return torch.nn.functional.normalize(vectors @ self._directions, dim=1)


def batch_of(rows: StepRows, own: Bool, stories: Shelf) -> Batch:
    """The posts of a step scored with its articles; which belong together is given: [n, k]."""
    score = rows.embed(0, Side.POST) @ rows.embed(1, Side.ARTICLE).T
    alike = own.astype(np.float32) @ copies(stories).astype(np.float32) > 0
    masks = (torch.from_numpy(mask).to(score.device) for mask in (own, alike & ~own))
    return Batch(score, *masks)


def copies(stories: Shelf) -> Bool:
    """Which articles tell the same story, by title, by words or to the teacher: [k, k]."""
    words, taught = stories.words, stories.taught
    same: Bool = (stories.story[:, None] == stories.story) | (words.dot(words) > SAME_WORDS)
    return same if taught is None else same | (taught @ taught.T > SAME_STORY).numpy()


def drawn(rng: np.random.Generator, count: int, size: int) -> I64:
    """So many different numbers below count, or all of them."""
    return rng.choice(count, min(size, count), replace=False)
