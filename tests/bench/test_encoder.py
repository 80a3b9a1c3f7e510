import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.cli import bench
from bench.encoder import ROWS, fresh_start
from bench.measure import NotAvailable
from encoder.errors import InputError
from encoder.model_directory import write_model
from tests.encoder.small_model import background, small_model
from tests.train.data_folder import write

OWN = "kernel,whole,again"


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
    made = json.loads(ran(place, f"--only={OWN},single", "--json"))
    result = {row["row"]: row for row in made["posts"]["rows"]}
    assert list(result) == [ROWS[name][0] for name in OWN.split(",")]
    for row in result.values():
        assert row["threads"] == 1
        assert row["lowest"] <= row["posts/s"] <= row["highest"], row
        assert row["× MiniLM"] is None
    (alone,) = made["single"]["rows"]
    assert 0 < alone["p50 ms"] <= alone["p99 ms"]


def test_an_unknown_row_or_a_senseless_list_of_threads_is_refused(place: Path) -> None:
    with pytest.raises(InputError, match="--only: nonsense is not a row; choose from again"):
        ran(place, "--only=whole,nonsense")
    for odd in ("0", "1,x", ""):
        done = CliRunner().invoke(bench, ["encoder", f"--threads={odd}"])
        assert done.exit_code == 2
        assert "not a list such as 1,2" in done.output


@pytest.mark.slow
def test_a_fresh_process_loads_the_model_without_torch(place: Path) -> None:
    first, resident, torch = fresh_start(str(place / "small"))
    assert first > 0
    assert resident > 0
    assert not torch
    with pytest.raises(NotAvailable, match="no such directory"):
        fresh_start(str(place / "nowhere"))
