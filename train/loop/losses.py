"""What training minimises: each function one idea, all on the cosines of unit vectors.

In the shapes n is the number of posts of a batch, k of its articles, d the width of a vector.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

NEVER = -1e4
EPSILON = 0.1  # by how much a mined pair may be easier than the hardest of the other kind
THRESHOLD = 0.3  # around which `pairwise_sigmoid` parts the pairs


@dataclass(frozen=True, slots=True)
class Batch:
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


def triplet(batch: Batch, margin: float) -> Tensor:
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


def contrastive(batch: Batch, temperature: float) -> Tensor:
    """Every post picks its article among all, every article its post: the mean cross entropy."""
    score = (batch.score / temperature).masked_fill(batch.spared & ~batch.own, NEVER)
    return (_pick(score, batch.own) + _pick(score.T, batch.own.T)) / 2


def _pick(score: Tensor, own: Tensor) -> Tensor:
    has = own.any(1)
    chosen = score.log_softmax(1).masked_fill(~own, -torch.inf).logsumexp(1)  # [n]
    return -(chosen[has].sum() / has.sum().clamp(min=1))


def pairwise_sigmoid(batch: Batch, temperature: float) -> Tensor:
    """Every pair for itself, together or not: the cross entropy of all pairs, for each post."""
    logit = (batch.score - THRESHOLD) / temperature
    loss = F.binary_cross_entropy_with_logits(logit, batch.own.float(), reduction="none")
    return (loss * (batch.own | batch.foreign)).sum() / len(logit)


def imitate(vectors: Tensor, taught: Tensor) -> Tensor:
    """Distance to the teacher's vectors, one by one and between each other: both unit [n, d]."""
    alone = 1 - (vectors * taught).sum(1).mean()
    between: Tensor = (vectors @ vectors.T - taught @ taught.T).square().mean()
    return alone + 2 * between


def agree(score: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """KL divergence from the teacher's post × article scores, over articles and over posts."""
    return _diverge(score, taught, temperature) + _diverge(score.T, taught.T, temperature)


def _diverge(score: Tensor, taught: Tensor, temperature: float) -> Tensor:
    mine, theirs = (score / temperature).log_softmax(1), (taught / temperature).softmax(1)
    return F.kl_div(mine, theirs, reduction="batchmean")
