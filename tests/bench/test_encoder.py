import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.cli import bench
from bench.encoder import READ, SKIM, fresh_start
from bench.measure import NotAvailable
from encoder.model_directory import write_model
from tests.encoder.small_model import background, small_model
from tests.train.data_folder import write


def test_a_senseless_list_of_threads_is_refused() -> None:
    for odd in ("0", "1,x", ""):
        done = CliRunner().invoke(bench, ["encoder", f"--threads={odd}"])
        assert done.exit_code == 2
        assert "not a list such as 1,2" in done.output


@pytest.mark.slow
def test_posts_are_timed_and_a_fresh_process_loads_the_model_without_torch(tmp_path: Path) -> None:
    write_model(tmp_path / "small", small_model())
    write(tmp_path / "posts.jsonl", ({"text": text} for text in background(40)))
    settings = [f"--data={tmp_path}/posts.jsonl", f"--model={tmp_path}/small", "--rounds=1"]
    arguments = ["encoder", *settings, "--seconds=0", "--threads=1", "--json"]
    done = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    tables = json.loads(done.stdout)
    for row, name in zip(tables["posts"]["rows"], (SKIM, READ), strict=False):
        assert (row["row"], row["threads"]) == (name, 1)
        assert row["lowest"] <= row["posts/s"] <= row["highest"], row
    for alone in tables["single"]["rows"]:
        assert 0 < alone["p50 ms"] <= alone["p99 ms"]
    first, resident, most, torch = (each["fresh"] for each in tables["start"]["rows"])
    assert (first > 0, 0 < resident <= most, torch) == (True, True, False)
    with pytest.raises(NotAvailable, match="no such directory"):
        fresh_start(str(tmp_path / "nowhere"))
