import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
import torch
from pytorch_metric_learning.miners import MultiSimilarityMiner
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from encoder.errors import InputError
from encoder.model.config import Side
from encoder.model.weights import F32
from tests.encoder.small_model import LINES
from tests.encoder.small_transformer import SETTINGS
from tests.train import tiny
from tests.train.data_folder import THINGS, training_folder
from tests.train.tiny import reader
from train.data.corpus import Corpus, read_corpus
from train.data.readers import Pair, SkippedRows, TrainingArticle
from train.loop.datasets import Dataset, Datasets, concat_rows, make_datasets
from train.loop.steps import (
    BatchSampler,
    ScoreBatch,
    agree,
    contrastive,
    copies,
    mine_pairs,
    pairwise_sigmoid,
    triplet,
    vector_loss,
)
from train.loop.token_rows import VECTORS, TokenTable
from train.model.encoders import make_encoder
from train.model.export import embed_tokens
from train.recipe import KINDS, Losses, Recipe, read_recipe

HEAT = 0.05


def unit_rows(rows: int, seed: int = 0) -> Tensor:
    drawn = torch.randn(rows, 4, generator=torch.Generator().manual_seed(seed)).double()
    return normalize(drawn, dim=1)


def batch(seed: int = 0, posts: int = 7, articles: int = 5) -> ScoreBatch:
    a, b = unit_rows(posts, seed=seed), unit_rows(articles, seed=seed + 100)
    own = torch.zeros(posts, articles, dtype=torch.bool)
    own[torch.arange(posts), torch.arange(posts) % articles] = True
    own[0, 1] = True
    near_copy = torch.zeros_like(own)
    near_copy[2, 0] = near_copy[3, 4] = True
    return ScoreBatch(a @ b.T, own, near_copy)


@pytest.mark.parametrize("seed", range(4))
def test_the_triplet_loss_is_the_papers(seed: int) -> None:
    scores = batch(seed)
    both = []
    for score, own, negative in (
        (scores.score, scores.own, scores.negative),
        (scores.score.T, scores.own.T, scores.negative.T),
    ):
        result = []
        for i in range(len(score)):
            positives = [j for j in range(score.shape[1]) if own[i, j]]
            negatives = [j for j in range(score.shape[1]) if negative[i, j]]
            if not positives or not negatives:
                continue
            farthest = min(float(score[i, j]) for j in positives)
            closest = max(float(score[i, j]) for j in negatives)
            for p in positives:
                for n in negatives:
                    if score[i, p] < closest + 0.1 and score[i, n] > farthest - 0.1:
                        near, far = 2 - 2 * score[i, p], 2 - 2 * score[i, n]
                        result.append(max(0.0, float(near - far) + 0.2))
        above = [value for value in result if value > 0]
        both.append(sum(above) / max(len(above), 1))
    assert float(triplet(scores, 0.2)) == pytest.approx(sum(both) / 2)
    assert sum(both) > 0


def test_the_miner_equals_pytorch_metric_learning() -> None:
    vectors = unit_rows(12, seed=3)
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    own, negative = same & ~torch.eye(12, dtype=torch.bool), ~same
    mine = mine_pairs(vectors @ vectors.T, own, negative)
    a1, p, a2, n = MultiSimilarityMiner(epsilon=0.1)(vectors, labels)
    for result, first, second in ((mine[0], a1, p), (mine[1], a2, n)):
        expected = set(zip(first.tolist(), second.tolist(), strict=True))
        assert {tuple(pair) for pair in result.nonzero().tolist()} == expected


def test_contrastive_is_the_cross_entropy_of_both_directions() -> None:
    scores = batch(1)
    total = []
    for rows, own, near_copy in (
        (scores.score, scores.own, scores.near_copy),
        (scores.score.T, scores.own.T, scores.near_copy.T),
    ):  # fmt: skip
        sides = []
        for i in range(len(rows)):
            weights = [
                0.0 if near_copy[i, j] and not own[i, j] else math.exp(float(rows[i, j]) / 0.05)
                for j in range(rows.shape[1])
            ]
            mine = sum(w for j, w in enumerate(weights) if own[i, j])
            sides.append(-math.log(mine / sum(weights)))
        total.append(sum(sides) / len(sides))
    assert float(contrastive(scores, HEAT)) == pytest.approx(sum(total) / 2)


def test_pairwise_sigmoid_is_the_cross_entropy_of_each_pair() -> None:
    scores, expected = batch(2), 0.0
    for i in range(7):
        for j in range(5):
            if scores.own[i, j] or scores.negative[i, j]:
                share = 1 / (1 + math.exp(-(float(scores.score[i, j]) - 0.3) / 0.05))
                expected -= math.log(share if scores.own[i, j] else 1 - share)
    assert float(pairwise_sigmoid(scores, HEAT)) == pytest.approx(expected / 7)


@pytest.mark.parametrize(
    "loss", [partial(triplet, margin=3.0), partial(contrastive, temperature=HEAT),
             partial(pairwise_sigmoid, temperature=HEAT)],
)  # fmt: skip
def test_a_copy_of_the_own_article_is_never_a_negative(
    loss: Callable[[ScoreBatch], Tensor],
) -> None:
    """Whatever the near-copy's vector is, the loss stays as it was."""
    score = (unit_rows(3, seed=8) @ unit_rows(3, seed=9).T).requires_grad_()
    own = torch.eye(3, dtype=torch.bool)
    near_copy = torch.tensor([[0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=torch.bool)
    loss(ScoreBatch(score, own, near_copy)).backward()  # type: ignore[no-untyped-call]
    assert score.grad is not None
    assert score.grad[0, 1] == 0
    assert score.grad.count_nonzero() > 3


def test_imitation_is_cosine_and_pairwise_difference() -> None:
    taught = unit_rows(6, seed=4)
    assert float(vector_loss(taught, taught)) == pytest.approx(0, abs=1e-12)
    other = unit_rows(6, seed=5)
    alone = sum(1 - float(a @ b) for a, b in zip(other, taught, strict=True)) / 6
    between = sum(
        float(other[i] @ other[j] - taught[i] @ taught[j]) ** 2 for i in range(6) for j in range(6)
    )
    assert float(vector_loss(other, taught)) == pytest.approx(alone + 2 * between / 36)


def test_agreement_is_the_divergence_over_articles_and_over_posts() -> None:
    mine, theirs = batch(6).score, batch(7).score
    assert float(agree(theirs, theirs, HEAT)) == pytest.approx(0, abs=1e-12)
    expected = 0.0
    for a, b in ((mine, theirs), (mine.T, theirs.T)):
        p, q = (b / 0.05).softmax(1), (a / 0.05).softmax(1)
        expected += float((p * (p / q).log()).sum() / len(a))
    assert float(agree(mine, theirs, HEAT)) == pytest.approx(expected)


WIDTH = SETTINGS.dim
DIRECTIONS = torch.linalg.qr(torch.randn(WIDTH, 8, generator=torch.Generator().manual_seed(1)))[0]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Datasets:
    folder = tmp_path_factory.mktemp("data")
    corpus = read_corpus(training_folder(folder), SkippedRows())
    return make_datasets(corpus, reader(), tiny.taught(corpus, folder / "star"))


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return read_recipe(str(tiny.recipe(tmp_path_factory.mktemp("recipe"))))


def table(recipe: Recipe) -> TokenTable:
    vectors = np.random.default_rng(0).standard_normal((len(LINES), 8), dtype=np.float32)
    return TokenTable(make_encoder("ast", recipe.model, vectors, 0))


def only(
    recipe: Recipe, kind: str, articles: Literal["model", "teacher"] = "model", **losses: float
) -> Recipe:
    """The recipe with steps of one kind, and some losses if any are named."""
    kinds: dict[str, Any] = {one: float(one == kind) for one in KINDS}
    batches = replace(recipe.batches, **kinds)
    chosen = msgspec.convert(losses, Losses) if losses else recipe.losses
    return replace(recipe, batches=batches, losses=chosen, articles=articles)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_depends_only_on_its_number_and_the_seed(
    recipe: Recipe, datasets: Datasets, kind: str
) -> None:
    one = only(recipe, kind)
    first, second = (BatchSampler(one, datasets, DIRECTIONS) for _ in "ab")
    other = BatchSampler(replace(one, seed=9), datasets, DIRECTIONS)
    tokens = table(recipe)
    for number in (7, 3):
        second.step(tokens, number)
    step, again, next_one = first.step(tokens, 5), second.step(tokens, 5), first.step(tokens, 6)
    assert step.kind == kind
    assert step.loss.item() == again.loss.item()
    assert torch.equal(step.rows.rows, again.rows.rows)
    assert len({x.loss.item() for x in (step, next_one, other.step(tokens, 5))}) == 3


def test_kinds_of_steps_have_the_shares_of_the_recipe(recipe: Recipe, datasets: Datasets) -> None:
    sampler = BatchSampler(recipe, datasets, DIRECTIONS)
    tokens = table(recipe)
    kinds = [sampler.step(tokens, number).kind for number in range(140)]
    for kind, share in Counter(pairs=2, posts=2, sentences=1, articles=1).items():
        assert abs(kinds.count(kind) / 140 - share / 6) < 0.1


def test_the_losses_are_summed_with_their_weights(recipe: Recipe) -> None:
    rng = np.random.default_rng(3)
    mine, theirs = (torch.tensor(unit(rng, n)) for n in (4, 3))
    own = torch.zeros((4, 3), dtype=torch.bool)
    own[torch.arange(4), torch.tensor([0, 1, 2, 2])] = True
    near_copy = torch.zeros_like(own)
    near_copy[0, 1] = True
    plan = only(recipe, "pairs", "teacher", triplet=1, contrastive=2, sigmoid=3, scores=4, errors=5)
    articles = [TrainingArticle("", text) for text in ("storm flood", "the river", "a match")]
    datasets = make_datasets(
        Corpus(["storm", "river", "match", "a flood"], articles, [], []), reader(), None
    )
    posts = replace(datasets.posts, teacher=torch.tensor(unit(rng, 4, WIDTH)))
    stories = replace(datasets.articles, teacher=torch.tensor(unit(rng, 3, WIDTH)))
    texts = Corpus([], [], [], [Pair("a b c", TrainingArticle("d", "e"))])
    sampler = BatchSampler(plan, make_datasets(texts, reader(), None), None)
    batch = ScoreBatch(mine @ theirs.T, own, near_copy)
    assert posts.teacher is not None
    assert stories.teacher is not None
    lexical = torch.tensor(posts.words.dot(stories.words))
    assert lexical.count_nonzero() >= 4
    dense = posts.teacher @ stories.teacher.T
    expected = (
        triplet(batch, 0.075)
        + 2 * contrastive(batch, 0.05)
        + 3 * pairwise_sigmoid(batch, 0.05)
        + 4 * agree(batch.score, (dense + lexical) / 2, 0.05)
        + 5 * ((batch.score - dense) ** 2).sum() / 12
    )
    result = sampler._loss(batch, posts, stories)
    assert result.item() == pytest.approx(expected.item(), rel=1e-5)


def unit(rng: np.random.Generator, count: int, width: int = 8) -> F32:
    rows = rng.standard_normal((count, width), dtype=np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def test_copies_of_an_article_are_never_its_negatives() -> None:
    long = " ".join(THINGS * 4)
    stories = [
        TrainingArticle("a title", "storm of the city"),
        TrainingArticle("A title.", "quite another text"),  # by title
        TrainingArticle("copy", f"{long} b"),
        TrainingArticle("", f"{long} c"),  # by words
        TrainingArticle("music", "a match"),
    ]
    dataset = make_datasets(Corpus([], stories, [], []), reader(), None).articles
    expected = np.eye(5, dtype=bool)
    expected[[0, 1, 2, 3], [1, 0, 3, 2]] = True
    assert np.array_equal(copies(dataset), expected)
    alike = normalize(torch.eye(5)[[0, 1, 2, 3, 0]] + 0.001, dim=1)
    expected[0, 4] = expected[4, 0] = True
    assert np.array_equal(copies(replace(dataset, teacher=alike)), expected)


def test_kinds_without_texts_are_never_drawn(recipe: Recipe, datasets: Datasets) -> None:
    empty = make_datasets(Corpus([], [], [], []), reader(), None)
    with pytest.raises(InputError, match="no texts for the recipe's steps: pairs"):
        BatchSampler(recipe, empty, DIRECTIONS)
    few = replace(datasets, sentences=empty.sentences, own=empty.own)
    sampler = BatchSampler(recipe, few, DIRECTIONS)
    tokens = table(recipe)
    kinds = {sampler.step(tokens, i).kind for i in range(60)}
    assert kinds == {"pairs", "posts", "articles"}


SHORT = [  # no token is dropped of such posts
    Pair("a storm", TrainingArticle("", "storm of the river")),
    Pair("the flood", TrainingArticle("", "flood and fire in the city")),
    Pair("a match", TrainingArticle("", "game, music")),
]


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Datasets:
    """Few texts, all of which each step reads."""
    corpus = Corpus([p.post for p in SHORT], [p.story for p in SHORT], [], SHORT)
    teacher = tiny.taught(corpus, tmp_path_factory.mktemp("runs") / "star")
    return make_datasets(corpus, reader(), teacher)


def in_eight(dataset: Dataset) -> Tensor:
    """The teacher's vectors in the model's width."""
    assert dataset.teacher is not None
    return normalize(dataset.teacher @ DIRECTIONS, dim=1)


def test_the_teacher_can_read_the_articles_of_pairs(recipe: Recipe, short: Datasets) -> None:
    plan, tokens = only(recipe, "pairs", "teacher", contrastive=1), table(recipe)
    step = BatchSampler(plan, short, DIRECTIONS).step(tokens, 5)
    posts = torch.tensor(embed_tokens(tokens.model, short.pair_posts.tokens, Side.POST, 0).dense)
    score = posts @ in_eight(short.pair_articles).T / HEAT
    expected = (cross_entropy(score, torch.arange(3)) + cross_entropy(score.T, torch.arange(3))) / 2
    assert step.loss.item() == pytest.approx(expected.item(), rel=1e-4)
    step.loss.backward()  # type: ignore[no-untyped-call]
    gradient = step.rows.leaves[VECTORS].grad
    assert gradient is not None
    moved = set(step.rows.rows[gradient.any(1)].tolist())
    assert moved == set(short.pair_posts.tokens.ids.tolist())
    assert not moved >= set(short.pair_articles.tokens.ids.tolist())


def test_a_post_learns_its_scores_with_articles(recipe: Recipe, short: Datasets) -> None:
    plan, tokens = only(recipe, "posts", "teacher", vectors=1, errors=7), table(recipe)
    step = BatchSampler(plan, short, DIRECTIONS).step(tokens, 5)
    posts = torch.tensor(embed_tokens(tokens.model, short.posts.tokens, Side.POST, 0).dense)
    teacher, articles = in_eight(short.posts), in_eight(short.articles)
    errors = (posts @ articles.T - teacher @ articles.T) ** 2
    expected = vector_loss(posts, teacher) + 7 * errors.sum() / 9
    assert step.loss.item() == pytest.approx(expected.item(), rel=1e-4)
    none = replace(short, articles=concat_rows((short.articles, np.array([], np.int64))))
    alone = BatchSampler(plan, none, DIRECTIONS).step(tokens, 5).loss
    assert alone.item() == pytest.approx(vector_loss(posts, teacher).item(), rel=1e-4)
