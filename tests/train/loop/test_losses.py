"""Every loss against loops that spell it out, and the miner against pytorch-metric-learning."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from pytorch_metric_learning.miners import MultiSimilarityMiner
from torch import Tensor

from train.loop.losses import (
    Batch,
    agree,
    contrastive,
    imitate,
    mined,
    pairwise_sigmoid,
    triplet,
)

HEAT = 0.05


def unit(rows: int, width: int = 4, seed: int = 0) -> Tensor:
    drawn = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)).double()
    return torch.nn.functional.normalize(drawn, dim=1)


def batch(seed: int = 0, posts: int = 7, articles: int = 5) -> Batch:
    a, b = unit(posts, seed=seed), unit(articles, seed=seed + 100)
    own = torch.zeros(posts, articles, dtype=torch.bool)
    own[torch.arange(posts), torch.arange(posts) % articles] = True
    own[0, 1] = True
    spared = torch.zeros_like(own)
    spared[2, 0] = spared[3, 4] = True
    return Batch(a @ b.T, own, spared)


@pytest.mark.parametrize("seed", range(4))
def test_the_triplet_loss_is_the_papers_over_the_mined_triplets(seed: int) -> None:
    given = batch(seed)
    both = []
    for score, own, foreign in (
        (given.score, given.own, given.foreign),
        (given.score.T, given.own.T, given.foreign.T),
    ):
        found = []
        for i in range(len(score)):
            positives = [j for j in range(score.shape[1]) if own[i, j]]
            negatives = [j for j in range(score.shape[1]) if foreign[i, j]]
            if not positives or not negatives:
                continue
            farthest = min(float(score[i, j]) for j in positives)
            closest = max(float(score[i, j]) for j in negatives)
            for p in positives:
                for n in negatives:
                    if score[i, p] < closest + 0.1 and score[i, n] > farthest - 0.1:
                        near, far = 2 - 2 * score[i, p], 2 - 2 * score[i, n]
                        found.append(max(0.0, float(near - far) + 0.2))
        above = [value for value in found if value > 0]
        both.append(sum(above) / max(len(above), 1))
    assert float(triplet(given, 0.2)) == pytest.approx(sum(both) / 2)
    assert sum(both) > 0


def test_the_miner_equals_pytorch_metric_learning() -> None:
    vectors = unit(12, seed=3)
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    own, foreign = same & ~torch.eye(12, dtype=torch.bool), ~same
    mine = mined(vectors @ vectors.T, own, foreign)
    a1, p, a2, n = MultiSimilarityMiner(epsilon=0.1)(vectors, labels)
    for found, first, second in ((mine[0], a1, p), (mine[1], a2, n)):
        expected = set(zip(first.tolist(), second.tolist(), strict=True))
        assert {tuple(pair) for pair in found.nonzero().tolist()} == expected


def test_contrastive_is_the_cross_entropy_of_both_directions() -> None:
    given = batch(1)
    total = []
    for rows, own, spared in (
        (given.score, given.own, given.spared), (given.score.T, given.own.T, given.spared.T),
    ):  # fmt: skip
        sides = []
        for i in range(len(rows)):
            weights = [
                0.0 if spared[i, j] and not own[i, j] else math.exp(float(rows[i, j]) / 0.05)
                for j in range(rows.shape[1])
            ]
            mine = sum(w for j, w in enumerate(weights) if own[i, j])
            sides.append(-math.log(mine / sum(weights)))
        total.append(sum(sides) / len(sides))
    assert float(contrastive(given, HEAT)) == pytest.approx(sum(total) / 2)


def test_pairwise_sigmoid_judges_every_pair_for_itself() -> None:
    given, expected = batch(2), 0.0
    for i in range(7):
        for j in range(5):
            if given.own[i, j] or given.foreign[i, j]:
                share = 1 / (1 + math.exp(-(float(given.score[i, j]) - 0.3) / 0.05))
                expected -= math.log(share if given.own[i, j] else 1 - share)
    assert float(pairwise_sigmoid(given, HEAT)) == pytest.approx(expected / 7)


@pytest.mark.parametrize(
    "loss", [partial(triplet, margin=3.0), partial(contrastive, temperature=HEAT),
             partial(pairwise_sigmoid, temperature=HEAT)],
)  # fmt: skip
def test_a_copy_of_the_own_article_is_never_a_negative(loss: Callable[[Batch], Tensor]) -> None:
    """Whatever the spared article's vector is, the loss stays as it was."""
    score = (unit(3, seed=8) @ unit(3, seed=9).T).requires_grad_()
    own = torch.eye(3, dtype=torch.bool)
    spared = torch.tensor([[0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=torch.bool)
    loss(Batch(score, own, spared)).backward()  # type: ignore[no-untyped-call]
    assert score.grad is not None
    assert score.grad[0, 1] == 0
    assert score.grad.count_nonzero() > 3


def test_imitation_is_least_where_the_vectors_are_the_teachers() -> None:
    taught = unit(6, seed=4)
    assert float(imitate(taught, taught)) == pytest.approx(0, abs=1e-12)
    other = unit(6, seed=5)
    alone = sum(1 - float(a @ b) for a, b in zip(other, taught, strict=True)) / 6
    between = sum(
        float(other[i] @ other[j] - taught[i] @ taught[j]) ** 2 for i in range(6) for j in range(6)
    )
    assert float(imitate(other, taught)) == pytest.approx(alone + 2 * between / 36)


def test_agreement_is_the_divergence_over_articles_and_over_posts() -> None:
    mine, theirs = batch(6).score, batch(7).score
    assert float(agree(theirs, theirs, HEAT)) == pytest.approx(0, abs=1e-12)
    expected = 0.0
    for a, b in ((mine, theirs), (mine.T, theirs.T)):
        p, q = (b / 0.05).softmax(1), (a / 0.05).softmax(1)
        expected += float((p * (p / q).log()).sum() / len(a))
    assert float(agree(mine, theirs, HEAT)) == pytest.approx(expected)
