import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from bench.cli import bench
from bench.costs import (
    FittedRuns,
    Run,
    RunCosts,
    Sizes,
    encode_us,
    frames,
    prediction,
    validation_runs,
)
from bench.measure import NotAvailable
from encoder.errors import InputError
from newsift.operations.capacity import plan_capacity, read_costs
from tests.encoder.small import WORDS
from tests.train.folders import write
from worker.posts.read import Post, read_post


def reading(run: Run) -> RunCosts:
    """What a run costs where each of the first seeds costs the same, and each other one."""
    return RunCosts(
        cpu_us=20
        + min(run.seeds, 1000) * 0.005
        + max(run.seeds - 1000, 0) * 0.002
        + run.share * 250,
        start_s=1.5 + run.seeds * 0.0004,
        memory_mb=400 + run.seeds * 0.02,
    )


def test_costs_are_recovered_and_predict_other_runs() -> None:
    fitted = FittedRuns.up_to(12_000)
    costs = fitted.costs(
        {run: reading(run) for run in fitted}, 5.0, Sizes(480, 200), Sizes(900, 250)
    )
    result = [costs.python_us, costs.encode_us, costs.match_ns, costs.more_match_ns]
    assert [*result, costs.matched_us] == pytest.approx([15, 5, 5, 2, 250])
    assert [costs.start_s, costs.start_ms] == pytest.approx([1.5, 0.4])
    assert [costs.memory_mb, costs.memory_kb] == pytest.approx([400, 20])
    tried = {run: reading(run) for run in validation_runs(12_000)}
    assert not tried.keys() & set(fitted)
    for row in prediction(costs, tried, "predicted", "").rows:
        assert row[1] == pytest.approx(row[2])
        assert row[3] in ("+0%", "-0%")


def test_few_texts_are_repeated_until_they_can_be_timed() -> None:
    assert encode_us(["storm over the harbour"]) > 0


def test_a_place_for_the_costs_that_cannot_be_written_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.costs.measure_costs", lambda **_: pytest.fail("it measures"))
    out = tmp_path / "nowhere" / "costs.json"
    done = CliRunner().invoke(bench, ["costs", "--out", str(out)])
    assert isinstance(done.exception, InputError)
    assert str(tmp_path / "nowhere") in str(done.exception)


def test_its_posts_are_read_as_bluesky_s_and_compress_as_ids_do() -> None:
    records = list(frames(["one", "zwei ü"], 300))
    posts = [post for _, value in records if isinstance(post := read_post(value), Post)]
    assert [post.text for post in posts[:3]] == ["one", "zwei ü", "one"]
    assert {post.platform for post in posts} == {"bluesky"}
    assert len({post.id for post in posts}) == 300
    sizes = Sizes.of(records)
    assert 350 < sizes.plain < 400
    assert 60 < sizes.compressed < 100  # 89 of its letters have 5 bits of chance


@pytest.mark.slow
def test_the_whole_of_it_on_a_few_posts(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for part, count, length in (("tweets", 5_000, 8), ("articles", 120, 60)):
        rows = [{"text": " ".join(rng.choice(WORDS, length))} for _ in range(count)]
        write(tmp_path / part / "a.jsonl", rows)
    out = tmp_path / "costs.json"
    args = ["costs", "--data", str(tmp_path), "--posts", "50000", "--rounds", "1", "--json"]
    done = CliRunner().invoke(bench, [*args, "--out", str(out)])
    if isinstance(done.exception, NotAvailable):
        assert "too few to be timed" in str(done.exception)  # a fast machine, and few posts
        return
    assert done.exit_code == 0, done.output
    tables = json.loads(done.stdout.splitlines()[-1])
    assert [len(tables[key]["rows"]) for key in ("fitted", "predicted")] == [3, 2]
    assert plan_capacity(read_costs(out), 6_000, 100).workers >= 1
