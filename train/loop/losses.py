"""What training minimises: small objects, each one idea, all on unit vectors.

In the shapes n is the number of posts of a batch, k of its articles, d the width of a vector.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

NEVER = -1e4


@dataclass(frozen=True, slots=True)
class Batch:
    """Posts and articles with their scores, which belong together, and which must not be compared.

    `own[i, j]`: post i talks about article j. `spared[i, j]`: j is a copy of an article of i, or
    close to one, and never its negative.
    """

    posts: Tensor  # [n, d], unit
    articles: Tensor  # [k, d], unit
    score: Tensor  # [n, k]
    own: Tensor  # bool [n, k]
    spared: Tensor  # bool [n, k]

    @property
    def foreign(self) -> Tensor:  # bool [n, k]
        """The articles that count as a post's negatives."""
        return ~(self.own | self.spared)


@dataclass(frozen=True, slots=True)
class MultiSimilarity:
    """Mines the hard pairs: negatives closer than the farthest positive, and vice versa."""

    epsilon: float = 0.1

    def mine(self, score: Tensor, own: Tensor, foreign: Tensor) -> tuple[Tensor, Tensor]:
        """Which positives and which negatives to use: two bool [n, k]."""
        farthest = score.masked_fill(~own, torch.inf).min(1, keepdim=True).values  # [n, 1]
        closest = score.masked_fill(~foreign, -torch.inf).max(1, keepdim=True).values  # [n, 1]
        hard_own = own & (score < closest + self.epsilon)
        hard_foreign = foreign & (score > farthest - self.epsilon)
        return hard_own, hard_foreign


@dataclass(frozen=True, slots=True)
class Triplet:
    """The paper's: max(0, |a − p|² − |a − n|² + margin), the mean over mined pairs above 0."""

    margin: float = 0.075
    miner: MultiSimilarity = MultiSimilarity()

    def __call__(self, batch: Batch) -> Tensor:
        """The loss with every post as anchor, then with every article as anchor."""
        score = batch.posts @ batch.articles.T  # |a − b|² = 2 − 2·cos for unit vectors
        sides = (score, batch.own, batch.foreign), (score.T, batch.own.T, batch.foreign.T)
        return torch.stack([self._one_side(*side) for side in sides]).mean()

    def _one_side(self, score: Tensor, own: Tensor, foreign: Tensor) -> Tensor:
        with torch.no_grad():
            own, foreign = self.miner.mine(score, own, foreign)
        gap = 2 * (score.unsqueeze(1) - score.unsqueeze(2)) + self.margin  # [n, own, foreign]
        gap = gap[own.unsqueeze(2) & foreign.unsqueeze(1)].relu()
        return gap.sum() / (gap > 0).sum().clamp(min=1)


@dataclass(frozen=True, slots=True)
class Contrastive:
    """In-batch: every post picks its article among all, every article its post."""

    temperature: float = 0.05

    def __call__(self, batch: Batch) -> Tensor:
        """The mean cross entropy of both directions."""
        score = (batch.score / self.temperature).masked_fill(batch.spared & ~batch.own, NEVER)
        return (self._pick(score, batch.own) + self._pick(score.T, batch.own.T)) / 2

    def _pick(self, score: Tensor, own: Tensor) -> Tensor:
        has = own.any(1)
        chosen = score.log_softmax(1).masked_fill(~own, -torch.inf).logsumexp(1)  # [n]
        return -(chosen[has].sum() / has.sum().clamp(min=1))


@dataclass(frozen=True, slots=True)
class PairwiseSigmoid:
    """Every pair for itself: together or not, around a threshold."""

    threshold: float = 0.3
    temperature: float = 0.05

    def __call__(self, batch: Batch) -> Tensor:
        """The cross entropy of all pairs, for each post."""
        logit = (batch.score - self.threshold) / self.temperature
        loss = F.binary_cross_entropy_with_logits(logit, batch.own.float(), reduction="none")
        return (loss * (batch.own | batch.foreign)).sum() / len(logit)


def imitate(vectors: Tensor, taught: Tensor) -> Tensor:
    """Distance to the teacher's vectors, one by one and between each other: both unit [n, d]."""
    alone = 1 - (vectors * taught).sum(1).mean()
    between: Tensor = (vectors @ vectors.T - taught @ taught.T).square().mean()
    return alone + 2 * between


def agree(score: Tensor, taught: Tensor, temperature: float = 0.05) -> Tensor:
    """KL divergence from the teacher's post × article scores, over articles and over posts."""
    return sum(
        (
            F.kl_div(
                (mine / temperature).log_softmax(1),
                (theirs / temperature).softmax(1),
                reduction="batchmean",
            )
            for mine, theirs in ((score, taught), (score.T, taught.T))
        ),
        start=score.new_zeros(()),
    )
