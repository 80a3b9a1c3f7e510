"""The tables of tokens: rows that learn as a whole table would, in blocks, with or without star."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoder.model.config import Side
from tests.train.loop.test_trainer import TARGET, Towards, fresh, judge, recipe
from train.loop.token_rows import AT_ONCE, VECTORS, Flat, RowAdam, TokenTable
from train.loop.trainer import Trainer
from train.model.export import text_blocks


def test_rows_learn_like_torchs_adam() -> None:
    """Rows that every step reads move as torch's own Adam moves them; the others stay."""
    start = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    mine = RowAdam(start.clone())
    theirs = start[[1, 4]].clone().requires_grad_()
    adam = torch.optim.Adam([theirs], lr=0.1)
    for i in range(5):
        gradient = torch.randn(2, 3, generator=torch.Generator().manual_seed(i))
        theirs.grad = gradient.clone()
        adam.step()
        mine.step(torch.tensor([1, 4]), gradient, 0.1)
    assert torch.allclose(mine.table[[1, 4]], theirs, atol=1e-6)
    assert torch.equal(mine.table[[0, 2, 3, 5]], start[[0, 2, 3, 5]])


def test_rows_have_the_gradients_of_a_whole_table() -> None:
    batch = Flat(np.array([3, 7, 3, 11, 0], np.int32), np.array([0, 3, 5]))
    rows = TokenTable(fresh()).rows(batch)
    (rows.embed(0, Side.ARTICLE) @ TARGET).sum().backward()  # type: ignore[no-untyped-call]
    model = fresh()
    result = model(torch.tensor([3, 7, 3, 11, 0]), torch.tensor([0, 3, 5]), Side.ARTICLE)
    (torch.nn.functional.normalize(result, dim=1) @ TARGET).sum().backward()  # type: ignore[no-untyped-call]
    whole = model.get_parameter("embedding").grad
    gates = model.get_parameter("residual.log_gates").grad
    assert whole is not None
    assert gates is not None
    result, weighed = rows.leaves.values()
    assert result.grad is not None
    assert weighed.grad is not None
    assert torch.allclose(result.grad, whole[rows.rows], atol=1e-6)
    assert torch.allclose(weighed.grad, gates[:, rows.rows].T, atol=1e-6)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 20))
def test_blocks_hold_every_text_once_and_not_too_many_tokens(lengths: list[int], most: int) -> None:
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    result = list(text_blocks(offsets, most))
    assert [i for first, last in result for i in range(first, last)] == list(range(len(lengths)))
    assert all(offsets[b] - offsets[a] <= most or b == a + 1 for a, b in result)
    assert result


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Flat(np.arange(16, dtype=np.int32), np.array([0, 3, 3, 9, 11, 16]))
    made = []
    for at_once in (4, 100):
        monkeypatch.setitem(AT_ONCE, "cpu", at_once)
        rows = TokenTable(fresh()).rows(batch)
        result = rows.embed(0, Side.POST)
        (result @ TARGET).sum().backward()  # type: ignore[no-untyped-call]
        made.append((result.detach(), rows.leaves[VECTORS].grad))
    assert torch.allclose(made[0][0], made[1][0], atol=1e-6)
    assert made[0][1] is not None
    assert made[1][1] is not None
    assert torch.allclose(made[0][1], made[1][1], atol=1e-6)


@pytest.mark.parametrize("fast", [False, True])
def test_bfloat16_is_used_where_it_is_fast(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("train.loop.token_rows.FAST", fast)
    batch = Flat(np.arange(16, dtype=np.int32), np.array([0, 3, 3, 9, 11, 16]))
    model = fresh()
    with torch.no_grad():
        model.get_parameter("residual.gain").fill_(0.5)
    made = []
    for expected in (False, True):
        rows = TokenTable(model, expected).rows(batch)
        vectors = rows.embed(0, Side.POST)
        (vectors @ TARGET).sum().backward()  # type: ignore[no-untyped-call]
        grad = rows.leaves[VECTORS].grad
        assert grad is not None
        assert vectors.dtype == grad.dtype == torch.float32
        made.append((vectors.detach(), grad))
    for whole, half in zip(*made, strict=True):
        assert torch.equal(whole, half) == (not fast)
        assert torch.allclose(whole, half, atol=0.02 * float(whole.abs().max()))


def test_before_the_star_joins_only_the_gated_mean_learns(tmp_path: Path) -> None:
    batch = Flat(np.array([3, 7, 3, 11, 0], np.int32), np.array([0, 3, 5]))
    model = fresh()
    table = TokenTable(model)
    together = table.rows(batch).embed(0, Side.ARTICLE)
    table.star = False
    alone = table.rows(batch).embed(0, Side.ARTICLE)
    assert torch.allclose(alone, together, atol=1e-6)  # the star's gain begins at zero
    before = {name: value.clone() for name, value in model.named_parameters()}
    late = recipe(star_from=1.0)
    trained = Trainer(model, late, Towards(), judge, tmp_path / "late").run()
    for name, value in trained.named_parameters():
        same_as_before = torch.equal(value, before[name])
        assert same_as_before == (name.startswith("star.") or name == "residual.gain"), name
    joined = fresh()
    Trainer(joined, recipe(star_from=0.5), Towards(), judge, tmp_path / "joined").run()
    assert joined.get_parameter("residual.gain").any()
