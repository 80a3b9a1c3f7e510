from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from encoder.errors import InputError
from encoder.model.star_settings import StarSettings
from encoder.model.star_transformer import StarTransformer
from encoder.model.weights import I32
from encoder.readers.star_chunks import END, PADDING, START
from encoder.support.named import MODELS
from tests.encoder.small_transformer import write_run
from train.loop.checkpoint import Checkpoint
from train.transformer import star_training
from train.transformer.mpnet import batches_by_length, padded
from train.transformer.star_training import (
    StarRecipe,
    StarTraining,
    TaughtTexts,
    aligned_axes,
    batches,
    digest_of,
    loss_of,
    principal_axes,
    star_of_model,
)

DIM = 6
TINY = StarSettings(vocabulary=40, layers=2, width=12, heads=3, inner=16, window=2, dim=DIM)
RECIPE = StarRecipe(batch=8, rate=1e-2, warm_up=2, decay_steps=40)


def make_texts(count: int) -> TaughtTexts:
    """Texts of 1 to 9 tokens; the teacher's vector is the mean of a fixed row for each token."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((TINY.vocabulary, DIM)).astype(np.float32)
    ids = [
        np.array([START, *rng.integers(3, 40, rng.integers(1, 10)), END], np.int32)
        for _ in range(count)
    ]
    means = torch.tensor(np.array([rows[own].mean(0) for own in ids]))
    return TaughtTexts(ids, torch.nn.functional.normalize(means, dim=1))


def start(texts: TaughtTexts) -> StarTraining:
    torch.manual_seed(0)
    return StarTraining(RECIPE, StarTransformer(TINY), texts, "cpu")


@pytest.fixture(autouse=True)
def few_dev_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(star_training, "DEV_TEXTS", 20)


def test_training_comes_near_to_the_teacher(tmp_path: Path) -> None:
    training = start(make_texts(220))
    before = training.dev_cosine()
    training.run(40, tmp_path / "star")
    assert training.dev_cosine() > before + 0.3


def test_a_resumed_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    texts = make_texts(100)
    whole = start(texts)
    whole.run(15, tmp_path / "whole")
    first = start(texts)
    first.run(6, tmp_path / "parts")
    second = start(texts)
    checkpoint = Checkpoint.read(tmp_path / "parts")
    assert checkpoint is not None
    second.restore(checkpoint)
    second.run(15, tmp_path / "parts")
    for name, value in whole.star.state_dict().items():
        assert torch.equal(second.star.state_dict()[name], value), name


OTHERS = {
    "layers": StarRecipe(layers=(0, 1, 11), window=2),
    "window": replace(RECIPE, window=4),
    "rate": replace(RECIPE, rate=3e-4),
    "seed": replace(RECIPE, seed=1),
    "from_model": replace(RECIPE, from_model="0" * 64),
    "texts": RECIPE,
}


@pytest.mark.parametrize("key", OTHERS)
def test_a_run_of_other_settings_is_not_resumed(key: str, tmp_path: Path) -> None:
    file, texts = tmp_path / "star", make_texts(100)
    start(texts).run(2, file)
    if key == "texts":
        texts = replace(texts, digest="another")
    other = StarTraining(OTHERS[key], StarTransformer(TINY), texts, "cpu")
    with pytest.raises(InputError, match=rf"{file}: .*\b{key}\b.*--out"):
        other.resume(file)
    assert other.step == 0


def test_a_longer_run_goes_on_from_the_end_of_one(tmp_path: Path) -> None:
    file, texts = tmp_path / "star", make_texts(100)
    start(texts).run(2, file)
    longer = StarTraining(replace(RECIPE, decay_steps=80), StarTransformer(TINY), texts, "cpu")
    longer.resume(file)
    assert longer.step == 2


def test_a_state_that_does_not_say_what_it_was_made_of_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command, too."""
    taught = make_texts(30), torch.zeros(384, 768)
    monkeypatch.setattr(star_training, "read_taught_texts", lambda *_: taught)
    monkeypatch.setattr(StarRecipe, "settings", TINY)
    write_run(tmp_path / "star")
    options = ["--data", str(tmp_path), "--out", str(tmp_path / "star")]
    with pytest.raises(InputError, match="--out"):
        CliRunner().invoke(star_training.main, options, catch_exceptions=False)


def test_the_digest_of_texts_is_of_their_ids_and_vectors() -> None:
    texts = make_texts(20)
    vectors = texts.vectors.numpy()
    swapped = [texts.ids[1], texts.ids[0], *texts.ids[2:]]
    pairs = (texts.ids, vectors), (swapped, vectors), (texts.ids, vectors[::-1])
    assert len({digest_of(*pair) for pair in pairs}) == 3
    assert digest_of(list(texts.ids), vectors.copy()) == digest_of(texts.ids, vectors)


def test_a_pass_reads_each_text_once_and_none_of_dev() -> None:
    texts = make_texts(333).ids
    rows = list(batches(RECIPE, texts, epoch=0))
    assert sorted(chain.from_iterable(rows)) == list(range(20, 333))
    assert rows != list(batches(RECIPE, texts, epoch=1))
    spread = [max(len(texts[i]) for i in row) - min(len(texts[i]) for i in row) for row in rows]
    assert np.mean(spread) < 3  # of 9


def test_the_loss_is_distance_and_difference_of_similarities() -> None:
    rng = np.random.default_rng(3)
    vectors, teacher = rng.standard_normal((2, 4, DIM))
    teacher /= np.linalg.norm(teacher, axis=1, keepdims=True)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    apart = np.mean([1 - unit[i] @ teacher[i] for i in range(4)])
    between = np.mean([
        (unit[i] @ unit[j] - teacher[i] @ teacher[j]) ** 2 for i in range(4) for j in range(4)
    ])  # fmt: skip
    loss = loss_of(torch.tensor(vectors), torch.tensor(teacher, dtype=torch.float32), 5.0)
    assert loss.item() == pytest.approx(apart + 5 * between, abs=1e-6)


def test_principal_axes_are_the_first_right_singular_vectors() -> None:
    vectors = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    _, _, rows = np.linalg.svd(vectors)
    axes = principal_axes(vectors, 3).numpy()
    np.testing.assert_allclose(np.abs((axes * rows[:3]).sum(1)), 1, atol=1e-5)


def test_axes_are_turned_to_the_space_of_a_star_that_was_begun_elsewhere() -> None:
    rng = np.random.default_rng(0)
    teacher = torch.from_numpy(rng.standard_normal((200, 8)).astype(np.float32))
    axes = principal_axes(teacher.numpy(), 3)
    turn, _ = torch.linalg.qr(torch.from_numpy(rng.standard_normal((3, 3)).astype(np.float32)))
    noise = torch.from_numpy(rng.standard_normal((200, 3)).astype(np.float32))
    star = teacher @ axes.T @ turn.T + 0.1 * noise
    torch.testing.assert_close(aligned_axes(axes, teacher, star), turn @ axes, atol=0.02, rtol=0)


def test_a_run_goes_on_from_the_star_that_ships_but_from_no_star_of_another_size() -> None:
    shipped = MODELS / "default"
    assert star_of_model(shipped, RECIPE.settings).settings == RECIPE.settings
    with pytest.raises(InputError, match="--from"):
        star_of_model(shipped, TINY)


def test_batches_by_length_hold_every_text_within_the_bound() -> None:
    rng = np.random.default_rng(0)
    texts: list[I32] = [np.zeros(n, np.int32) for n in rng.integers(1, 40, 200)]
    rows = list(batches_by_length(texts, 64))
    assert sorted(chain.from_iterable(rows)) == list(range(200))
    assert all(len(row) * max(len(texts[i]) for i in row) <= 64 for row in rows)


def test_padding_fills_shorter_texts_and_is_marked() -> None:
    ids, real = padded([np.array([0, 5, 2], np.int32), np.array([0, 2], np.int32)])
    assert ids.tolist() == [[0, 5, 2], [0, 2, PADDING]]
    assert real.tolist() == [[True] * 3, [True, True, False]]
