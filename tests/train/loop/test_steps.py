"""The steps of each kind: what they draw, what they compare, and what their loss is made of."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from encoder.model.weights import F32
from encoder.score.lexical import SLOTS, Idf
from encoder.text.tokenizer import Tokenizer
from encoder.text.vocabulary import WordPiece
from tests.encoder.small import LINES
from tests.train import tiny
from tests.train.folders import THINGS, training_folder
from train.data.corpus import Corpus, read_corpus
from train.data.readers import Pair, Passed, Story
from train.loop.lessons import Lessons, pile, shelve
from train.loop.losses import Batch, agree, contrastive, imitate, pairwise_sigmoid, triplet
from train.loop.steps import Drill, copies, drawn
from train.loop.token_rows import TokenTable
from train.model.encoders import make_encoder
from train.recipe import KINDS, TAUGHT, Batches, Losses, Recipe, read_recipe
from train.teacher.chunks import WIDTH
from train.teacher.store import VectorStore

DIRECTIONS = torch.linalg.qr(torch.randn(WIDTH, 8, generator=torch.Generator().manual_seed(1)))[0]


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> Lessons:
    data = training_folder(tmp_path_factory.mktemp("data"))
    store = VectorStore(tiny.taught(data, tmp_path_factory.mktemp("cache")), WIDTH)
    return shelve(read_corpus(data, Passed()), reader(), store)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return read_recipe(str(tiny.recipe(tmp_path_factory.mktemp("recipe"))))


def reader() -> Tokenizer:
    config = AstConfig(post_tokens=32, article_tokens=128)
    return Tokenizer(WordPiece.from_lines(LINES), Idf(np.ones(SLOTS, np.float32)), config)


def table(recipe: Recipe) -> TokenTable:
    vectors = np.random.default_rng(0).standard_normal((len(LINES), 8), dtype=np.float32)
    return TokenTable(make_encoder("ast", recipe.model, vectors, 0))


def only(recipe: Recipe, kind: str, **losses: float) -> Recipe:
    """The recipe with steps of one kind, and some losses if any are named."""
    kinds: dict[str, Any] = {one: float(one == kind) for one in KINDS}
    batches = replace(recipe.batches, **kinds)
    chosen = msgspec.convert(losses, Losses) if losses else recipe.losses
    return replace(recipe, batches=batches, losses=chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_depends_on_its_number_and_the_seed_alone(
    recipe: Recipe, lessons: Lessons, kind: str
) -> None:
    one = only(recipe, kind)
    first, second = (Drill(one, lessons, DIRECTIONS) for _ in "ab")
    other = Drill(replace(one, seed=9), lessons, DIRECTIONS)
    tokens = table(recipe)
    for number in (7, 3):
        second.step(tokens, number)
    step, again, next_one = first.step(tokens, 5), second.step(tokens, 5), first.step(tokens, 6)
    assert step.kind == kind
    assert step.loss.item() == again.loss.item()
    assert torch.equal(step.rows.rows, again.rows.rows)
    assert len({x.loss.item() for x in (step, next_one, other.step(tokens, 5))}) == 3


def test_kinds_come_as_often_as_the_recipe_says(recipe: Recipe, lessons: Lessons) -> None:
    drill = Drill(recipe, lessons, DIRECTIONS)
    tokens = table(recipe)
    kinds = [drill.step(tokens, number).kind for number in range(140)]
    for kind, share in Counter(
        pairs=2, posts=2, sentences=1, articles=1, claims=1, cloze=1
    ).items():
        assert abs(kinds.count(kind) / 140 - share / 8) < 0.1


def test_texts_alone_are_drawn_towards_the_teacher(recipe: Recipe, lessons: Lessons) -> None:
    sides = {"posts": Side.POST, "sentences": Side.POST}
    for kind in TAUGHT:
        side = sides.get(kind, Side.ARTICLE)
        plan = only(recipe, kind, vectors=2.0, neighbours=0.5)
        plan = replace(plan, batches=replace(plan.batches, drop=0.0))
        step = Drill(plan, lessons, DIRECTIONS).step(table(recipe), 4)
        rng = np.random.default_rng([0, 4])
        rng.choice([kind], p=[1.0])
        shelf = getattr(lessons, kind)
        size = plan.batches.article_size if kind == "articles" else plan.batches.post_size
        chosen = rng.choice(len(shelf), min(size, len(shelf)), replace=False)
        rows = table(recipe).rows(pile((shelf, chosen)).take(0, rng))
        wanted = torch.nn.functional.normalize(shelf.taught[chosen] @ DIRECTIONS, dim=1)
        found, heat = rows.embed(0, side), plan.losses.temperature
        near = agree(found @ wanted.T, wanted @ wanted.T, heat).item()
        expected = 2.0 * imitate(found, wanted).item() + 0.5 * near
        assert near > 0.01
        assert step.loss.item() == pytest.approx(expected, rel=1e-5)


def score(recipe: Recipe, lessons: Lessons, **losses: float) -> float:
    plan = only(recipe, "pairs", **(losses or {"vectors": 1.0}))
    return Drill(plan, lessons, DIRECTIONS).step(table(recipe), 2).loss.item()


def test_a_step_of_pairs_adds_up_the_losses_by_their_weights(
    recipe: Recipe, lessons: Lessons
) -> None:
    names = ("triplet", "contrastive", "sigmoid", "scores")
    each = {name: score(recipe, lessons, **{name: 1.0}) for name in names}
    assert all(each.values())
    weights = {"triplet": 0.5, "contrastive": 2.0, "sigmoid": 0.25, "scores": 3.0}
    expected = sum(each[name] * weight for name, weight in weights.items())
    assert score(recipe, lessons, **weights) == pytest.approx(expected, rel=1e-5)
    assert score(recipe, lessons) == 0


def test_the_losses_get_the_scores_and_the_teachers(recipe: Recipe) -> None:
    rng = np.random.default_rng(3)
    mine, theirs = (torch.tensor(unit(rng, n)) for n in (4, 3))
    own = torch.zeros((4, 3), dtype=torch.bool)
    own[torch.arange(4), torch.tensor([0, 1, 2, 2])] = True
    spared = torch.zeros_like(own)
    spared[0, 1] = True
    plan = only(recipe, "pairs", triplet=1, contrastive=2, sigmoid=3, scores=4)
    told = [Story("", text) for text in ("storm flood", "the river", "a match")]
    shelves = shelve(Corpus(["storm", "river", "match", "a flood"], told, [], []), reader(), None)
    posts = replace(shelves.posts, taught=torch.tensor(unit(rng, 4, WIDTH)))
    stories = replace(shelves.articles, taught=torch.tensor(unit(rng, 3, WIDTH)))
    texts = Corpus([], [], [], [Pair("a b c", Story("d", "e"))])
    drill = Drill(plan, shelve(texts, reader(), None), None)
    batch = Batch(mine @ theirs.T, own, spared)
    assert posts.taught is not None
    assert stories.taught is not None
    lexical = torch.tensor(posts.words.dot(stories.words))
    assert lexical.count_nonzero() >= 4
    expected = (
        triplet(batch, 0.075)
        + 2 * contrastive(batch, 0.05)
        + 3 * pairwise_sigmoid(batch, 0.05)
        + 4 * agree(batch.score, (posts.taught @ stories.taught.T + lexical) / 2, 0.05)
    )
    found = drill._loss(batch, posts, stories)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


def unit(rng: np.random.Generator, count: int, width: int = 8) -> F32:
    rows = rng.standard_normal((count, width), dtype=np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def test_copies_of_an_article_are_never_its_negatives() -> None:
    long = " ".join(THINGS * 4)
    stories = [
        Story("a title", "storm of the city"),
        Story("A title.", "quite another text"),  # by title
        Story("copy", f"{long} b"),
        Story("", f"{long} c"),  # by words
        Story("music", "a match"),
    ]
    shelf = shelve(Corpus([], stories, [], []), reader(), None).articles
    expected = np.eye(5, dtype=bool)
    expected[[0, 1, 2, 3], [1, 0, 3, 2]] = True
    assert np.array_equal(copies(shelf), expected)
    alike = torch.nn.functional.normalize(torch.eye(5)[[0, 1, 2, 3, 0]] + 0.001, dim=1)
    expected[0, 4] = expected[4, 0] = True
    assert np.array_equal(copies(replace(shelf, taught=alike)), expected)


def test_a_copy_changes_nothing_for_the_post(recipe: Recipe) -> None:
    """The loss of a step in which one article stands twice, against the same without the copy."""
    plan = only(recipe, "pairs", contrastive=1.0)
    plan = replace(plan, batches=Batches(pairs=1, pair_size=9))
    pairs = [Pair("storm", Story("t", "a storm")), Pair("music", Story("u", "a game"))]
    copy = Pair("storm", Story("t", "fire fire"))
    seen: list[Batch] = []

    def look(batch: Batch, temperature: float) -> torch.Tensor:
        seen.append(batch)
        return contrastive(batch, temperature)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("train.loop.steps.contrastive", look)
        Drill(plan, shelve(Corpus([], [], [], [*pairs, copy]), reader(), None), None).step(
            table(recipe), 0
        )
    (batch,) = seen
    assert batch.own.sum() == 3
    assert batch.foreign.sum(1).tolist().count(1) == 2  # both storms: the music alone
    assert not (batch.own & batch.spared).any()


def test_kinds_without_texts_are_never_drawn(recipe: Recipe, lessons: Lessons) -> None:
    empty = shelve(Corpus([], [], [], []), reader(), None)
    with pytest.raises(InputError, match="nothing for the steps that the recipe asks for: pairs"):
        Drill(recipe, empty, DIRECTIONS)
    few = replace(lessons, claims=empty.claims, own=empty.own)
    drill = Drill(recipe, few, DIRECTIONS)
    tokens = table(recipe)
    assert {drill.step(tokens, i).kind for i in range(60)} == {
        "pairs",
        "posts",
        "sentences",
        "articles",
        "cloze",
    }


def test_as_many_as_there_are_are_drawn() -> None:
    rng = np.random.default_rng(0)
    assert sorted(drawn(rng, 4, 9)) == [0, 1, 2, 3]
    assert len(set(drawn(rng, 100, 30))) == 30
    assert len(drawn(rng, 0, 5)) == 0


def test_a_part_is_taken_out_of_its_article(
    recipe: Recipe, lessons: Lessons, tmp_path: Path
) -> None:
    plan = only(recipe, "cloze")
    rows = Drill(plan, lessons, DIRECTIONS).step(table(recipe), 3).rows
    cut, rest = rows._batches
    long = {
        len(ids)
        for ids in np.split(lessons.articles.tokens.ids, lessons.articles.tokens.offsets[1:-1])
    }
    for a, b in zip(np.diff(cut.offsets), np.diff(rest.offsets), strict=True):
        assert 8 <= a < 28
        assert a + b in long
