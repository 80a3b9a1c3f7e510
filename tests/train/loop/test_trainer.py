import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from train.loop.dev import decisive
from train.loop.steps import Step
from train.loop.token_rows import TOKENS_AT_ONCE, VECTORS, RowAdam, StepRows, TokenBatch, TokenTable
from train.loop.trainer import RunFolder, Trainer, schedule
from train.model.encoders import make_encoder
from train.model.export import text_blocks
from train.recipe import Recipe, Steps

CONFIG = AstConfig(dim=8, heads=2, head_dim=4, residual=True, post_tokens=16, article_tokens=16)
TARGET = torch.nn.functional.normalize(torch.arange(1.0, 9.0), dim=0)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Crash(Exception):
    """What a script throws where the process would have died."""


class Towards:
    """Steps that pull random texts towards one vector; a script may crash or spoil a step."""

    def __init__(self, crash_at: int | None = None, nan_at: int | None = None) -> None:
        self.crash_at, self.nan_at, self.drawn = crash_at, nan_at, 0
        self.spoilt = "loss"

    def __call__(self, table: TokenTable, number: int) -> Step:
        if number == self.crash_at:
            raise Crash
        self.drawn += 1
        rng = np.random.default_rng([5, number])
        batch = TokenBatch(rng.integers(0, 20, 12).astype(np.int32), np.array([0, 5, 12]))
        rows = StepRows(table, [batch])
        loss = (1 - rows.embed(0, Side.POST) @ TARGET).mean()
        if number == self.nan_at and self.spoilt == "loss":
            loss = loss * torch.nan
        elif number == self.nan_at:
            loss = loss + (loss - loss.detach()).square().sqrt()  # 0, with NaN as its gradient
        return Step("posts", rows, loss)


def recipe(**steps: object) -> Recipe:
    chosen = {"count": 40, "rate": 0.01, "table_rate": 0.02, "judge_every": 10, "keep_every": 10}
    return Recipe(model=CONFIG, steps=msgspec.convert(chosen | steps, Steps))


def fresh() -> nn.Module:
    torch.manual_seed(0)
    vectors = np.random.default_rng(1).standard_normal((20, 8), dtype=np.float32)
    return make_encoder("ast", CONFIG, vectors, 3)


def judge(model: nn.Module) -> dict[str, float]:
    ids, offsets = torch.arange(20), torch.arange(0, 21, 5)
    with torch.no_grad():
        result = torch.nn.functional.normalize(model(ids, offsets, Side.POST), dim=1)
    return {"score": float((result @ TARGET).mean())}


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


def test_training_learns(tmp_path: Path) -> None:
    model = fresh()
    before = judge(model)["score"]
    Trainer(model, recipe(), Towards(), judge, RunFolder(tmp_path)).run()
    assert judge(model)["score"] > before + 0.3
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [10, 20, 30, 40]
    assert lines[-1]["losses"]["posts"] < lines[0]["losses"]["posts"]


@pytest.mark.parametrize(("average_from", "crash"), [(0.0, 1), (0.5, 10), (1.0, 39)])
def test_a_crashed_run_ends_like_an_uninterrupted_one(
    tmp_path: Path, crash: int, average_from: float
) -> None:
    plan = recipe(average_from=average_from, average_every=3, warm_up=5)
    whole = Trainer(fresh(), plan, Towards(), judge, RunFolder(tmp_path / "whole")).run()
    broken = Trainer(fresh(), plan, Towards(crash_at=crash), judge, RunFolder(tmp_path / "broken"))
    with pytest.raises(Crash):
        broken.run()
    again = Towards()
    resumed = Trainer(fresh(), plan, again, judge, RunFolder(tmp_path / "broken")).run()
    assert again.drawn == 40 - crash // 10 * 10
    assert same(state(whole), state(resumed))
    logs = [(tmp_path / name / "log.jsonl").read_text() for name in ("whole", "broken")]
    assert logs[0] == logs[1]


def test_the_best_state_is_returned(tmp_path: Path) -> None:
    scores, seen = iter([0.1, 0.9, 0.5, 0.2]), list[dict[str, Tensor]]()

    def scripted(model: nn.Module) -> dict[str, float]:
        seen.append(state(model))
        return {"score": next(scores)}

    model = Trainer(fresh(), recipe(), Towards(), scripted, RunFolder(tmp_path)).run()
    assert same(state(model), seen[1])


def test_patience_ends_a_run_without_progress(tmp_path: Path) -> None:
    scores = iter([0.5, 0.4, 0.3, 0.2])
    sampler = Towards()
    run = Trainer(
        fresh(), recipe(patience=2), sampler, lambda _: {"score": next(scores)}, RunFolder(tmp_path)
    )
    run.run()
    assert run.progress.step == sampler.drawn == 30
    assert run.progress.best_step == 10


def test_the_average_is_the_mean_of_late_states(tmp_path: Path) -> None:
    plan = recipe(average_from=0.5, average_every=10, judge_every=40)
    states: list[dict[str, Tensor]] = []
    for count in (30, 40):
        short = recipe(
            average_from=1.0, judge_every=count, keep_every=100, decay=False, count=count
        )
        model = Trainer(fresh(), short, Towards(), judge, RunFolder(tmp_path / str(count))).run()
        states.append(state(model))
    plan = recipe(average_from=0.5, average_every=10, judge_every=40, decay=False)
    result = state(Trainer(fresh(), plan, Towards(), judge, RunFolder(tmp_path / "mean")).run())
    for name, value in result.items():
        assert torch.allclose(value, (states[0][name] + states[1][name]) / 2, atol=1e-6)


@pytest.mark.parametrize("spoilt", ["loss", "gradient"])
def test_a_loss_or_gradient_of_nan_ends_the_run_and_keeps_the_last_state(
    spoilt: str, tmp_path: Path
) -> None:
    steps = Towards(nan_at=25)
    steps.spoilt = spoilt
    message = rf"step 25: the {spoilt} of posts is nan; lower `steps\.rate`"
    with pytest.raises(InputError, match=message):
        Trainer(fresh(), recipe(), steps, judge, RunFolder(tmp_path)).run()
    assert Trainer(fresh(), recipe(), Towards(), judge, RunFolder(tmp_path)).progress.step == 20


def test_a_full_disk_keeps_the_last_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Crash):
        Trainer(fresh(), recipe(), Towards(crash_at=25), judge, RunFolder(tmp_path)).run()
    before = (tmp_path / "last.safetensors").read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        Trainer(fresh(), recipe(), Towards(), judge, RunFolder(tmp_path)).run()
    assert (tmp_path / "last.safetensors").read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "best.safetensors", "last.safetensors", "log.jsonl",
    ]  # fmt: skip


def test_parameters_that_do_not_learn_are_not_averaged(tmp_path: Path) -> None:
    """The α of softmax stands at minus infinity, of which no mean can be taken."""
    model = make_encoder("ast-softmax", CONFIG, np.eye(20, 8, dtype=np.float32), 3)
    plan = recipe(average_from=0.0, average_every=1)
    trained = Trainer(model, plan, Towards(), judge, RunFolder(tmp_path)).run()
    assert torch.isneginf(trained.get_parameter("star.layers.0.ring.raw_alpha")).all()


@pytest.mark.parametrize("other", [{"recipe": recipe(clip=2.0)}, {"data": "of yesterday"}])
def test_a_folder_of_another_run_is_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    Trainer(fresh(), recipe(), Towards(), judge, RunFolder(tmp_path)).run()
    chosen: dict[str, Any] = {"recipe": recipe(), "data": ""} | other
    with pytest.raises(InputError, match=f"a run with another {next(iter(other))}; name another"):
        Trainer(fresh(), chosen["recipe"], Towards(), judge, RunFolder(tmp_path, chosen["data"]))


@pytest.mark.parametrize("damage", [b"", b"\x80\x04N.", b"x" * 200])
def test_a_damaged_state_is_refused_with_the_remedy(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "last.safetensors").write_bytes(damage)
    with pytest.raises(InputError, match="remove it to start again"):
        Trainer(fresh(), recipe(), Towards(), judge, RunFolder(tmp_path))


def test_the_rate_rises_and_falls() -> None:
    plan = Steps(count=100, warm_up=10)
    assert schedule(plan, 0) == pytest.approx(0.1)
    assert schedule(plan, 9) == pytest.approx(0.91)
    assert schedule(plan, 99) == pytest.approx(0.01)
    assert schedule(Steps(count=100, decay=False), 99) == 1


def test_pairs_decide_where_there_are_any_and_crises_elsewhere() -> None:
    figures = {"flood AUC off": 0.8, "flood AUC background": 0.9, "flood P@R80": 0.1}
    assert decisive(figures) == pytest.approx((0.8 + 0.9) / 2)
    assert decisive(figures | {"a mAP": 0.5, "b mAP": 0.7}) == pytest.approx((0.5 + 0.7) / 2)
    assert decisive({}) == 0


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
    batch = TokenBatch(np.array([3, 7, 3, 11, 0], np.int32), np.array([0, 3, 5]))
    rows = StepRows(TokenTable(fresh()), [batch])
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
    batch = TokenBatch(np.arange(16, dtype=np.int32), np.array([0, 3, 3, 9, 11, 16]))
    made = []
    for at_once in (4, 100):
        monkeypatch.setitem(TOKENS_AT_ONCE, "cpu", at_once)
        rows = StepRows(TokenTable(fresh()), [batch])
        result = rows.embed(0, Side.POST)
        (result @ TARGET).sum().backward()  # type: ignore[no-untyped-call]
        made.append((result.detach(), rows.leaves[VECTORS].grad))
    assert torch.allclose(made[0][0], made[1][0], atol=1e-6)
    assert made[0][1] is not None
    assert made[1][1] is not None
    assert torch.allclose(made[0][1], made[1][1], atol=1e-6)


@pytest.mark.parametrize("fast", [False, True])
def test_bfloat16_is_used_where_it_is_fast(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("train.loop.bf16.HAS_FAST_BF16", fast)
    batch = TokenBatch(np.arange(16, dtype=np.int32), np.array([0, 3, 3, 9, 11, 16]))
    model = fresh()
    with torch.no_grad():
        model.get_parameter("residual.gain").fill_(0.5)
    made = []
    for expected in (False, True):
        rows = StepRows(TokenTable(model, expected), [batch])
        vectors = rows.embed(0, Side.POST)
        (vectors @ TARGET).sum().backward()  # type: ignore[no-untyped-call]
        grad = rows.leaves[VECTORS].grad
        assert grad is not None
        assert vectors.dtype == grad.dtype == torch.float32
        made.append((vectors.detach(), grad))
    for whole, half in zip(*made, strict=True):
        assert torch.equal(whole, half) == (not fast)
        assert torch.allclose(whole, half, atol=0.02 * float(whole.abs().max()))
