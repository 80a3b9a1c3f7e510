import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from bench.cli import bench
from bench.encoder import ROWS, PaperForm, fresh_start
from bench.measure import NotAvailable
from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from encoder.model.weights import I32, I64, random_weights
from encoder.model_directory import write_model
from tests.encoder.reference import reference
from tests.encoder.small import background, small_model
from tests.train.folders import write

OWN = "published,torch,kernel,whole,again"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    write_model(folder / "small", small_model())
    write(folder / "posts.jsonl", ({"text": text} for text in background(40)))
    return folder


def ran(place: Path, *more: str) -> str:
    settings = [f"--data={place}/posts.jsonl", f"--model={place}/small", "--rounds=1"]
    arguments = ["encoder", *settings, "--seconds=0", "--threads=1", *more]
    done = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_row_of_ours_runs_and_is_compared(place: Path) -> None:
    made = json.loads(ran(place, f"--only={OWN},single,errors", "--json"))
    result = {row["row"]: row for row in made["posts"]["rows"]}
    assert list(result) == [ROWS[name].name for name in OWN.split(",")]
    for row in result.values():
        assert row["threads"] == 1
        assert row["lowest"] <= row["posts/s"] <= row["highest"], row
    published, *_, whole, _ = result.values()
    assert whole["× as published"] == pytest.approx(whole["posts/s"] / published["posts/s"])
    assert whole["× MiniLM"] is None
    (alone,) = made["single"]["rows"]
    assert 0 < alone["p50 ms"] <= alone["p99 ms"]
    errors = {row["path"]: row["embedding, relative"] for row in made["errors"]["rows"]}
    assert errors["torch"] < 1e-4
    assert errors["kernel"] < 1e-5


def test_an_unknown_row_or_a_senseless_list_of_threads_is_refused(place: Path) -> None:
    with pytest.raises(InputError, match="--only: nonsense is not a row; choose from again"):
        ran(place, "--only=whole,nonsense")
    for odd in ("0", "1,x", ""):
        done = CliRunner().invoke(bench, ["encoder", f"--threads={odd}"])
        assert done.exit_code == 2
        assert "not a list such as 1,2" in done.output


@pytest.mark.slow
def test_a_fresh_process_loads_the_model_without_torch(place: Path) -> None:
    load, first, cpu, resident, peak, torch, path = fresh_start(str(place / "small"))
    assert 0 < load <= first
    assert cpu > 0
    assert 0 < resident <= peak
    assert torch == (path == "torch")
    with pytest.raises(NotAvailable, match="no such directory"):
        fresh_start(str(place / "nowhere"))


LENGTHS = (1, 2, 7, 0, 4, 13)


@pytest.fixture
def texts() -> tuple[I32, I64]:
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64)
    return np.random.default_rng(1).integers(0, 50, offsets[-1]).astype(np.int32), offsets


@pytest.mark.parametrize(("window", "layers"), [(2, 1), (1, 1), (0, 2), (3, 2)])
def test_computes_what_the_paper_says_whatever_the_padding(
    window: int, layers: int, texts: tuple[I32, I64]
) -> None:
    config = AstConfig(dim=12, heads=3, head_dim=5, window=window, layers=layers)
    weights = random_weights(config, 50, seed=window)
    ids, offsets = texts
    result = PaperForm(weights, torch.float64).forward(ids, offsets)
    for i, y in enumerate(result):
        exact = reference(weights, ids[offsets[i] : offsets[i + 1]].tolist(), Side.POST)
        np.testing.assert_allclose(y, exact, atol=1e-7)  # α comes by its sigmoid


def test_single_precision_stays_close_to_double(texts: tuple[I32, I64]) -> None:
    weights = random_weights(AstConfig(dim=12, heads=3, head_dim=5), 50)
    single = PaperForm(weights).forward(*texts)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, PaperForm(weights, torch.float64).forward(*texts), atol=1e-4)
