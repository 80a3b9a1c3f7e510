"""The pieces of `newsift bench stream` that need no worker, and the whole of it on a few posts."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import encoder
from bench.cli import bench
from bench.collect import between
from bench.jetstream import V1, V2, events
from bench.measure import NotAvailable
from bench.stream import Measured, rounds_of, speed_part, threshold_for
from encoder.model_directory import write_model
from tests.encoder.small import WORDS, small_model
from worker.posts.read import Post, read_post


def texts(count: int) -> list[str]:
    rng = np.random.default_rng(1)
    return [" ".join(rng.choice(WORDS, 5)) for _ in range(count)]


def test_the_threshold_lets_the_share_pass(tmp_path: Path) -> None:
    write_model(tmp_path / "m", small_model())
    enc = encoder.load(tmp_path / "m")
    posts, articles = texts(600), [("", text) for text in texts(4)]
    cut = threshold_for(enc, posts, articles, 0.1)
    best = enc.posts(posts).similarity(enc.articles(articles)).max(1)
    assert 0.08 < float((best >= cut).mean()) < 0.13


def test_every_row_runs_once_a_round() -> None:
    ran: Counter[str] = Counter()

    def row(name: str, rate: float) -> Measured:
        ran[name] += 1
        return Measured(rate * ran[name], 5.0)

    rows = {"a": lambda: row("a", 100), "b": lambda: row("b", 50), "c": lambda: row("c", 10)}
    result = rounds_of(rows, 3, lambda line: None)
    assert ran == {"a": 3, "b": 3, "c": 3}
    part = speed_part(result)
    assert part.rows[1] == ("b", 100, 50, 150, 0.5, 5, 5)


@pytest.mark.parametrize("path", [V1, V2])
def test_what_it_replays_the_worker_reads(path: str) -> None:
    result = [read_post(each.encode()) for each in events(["one", "zwei ü"], 5, path)]
    texts = [post.text for post in result if isinstance(post, Post)]
    assert texts == ["one", "zwei ü", "one", "zwei ü", "one"]
    assert len({post.id for post in result if isinstance(post, Post)}) == 5


def test_a_rate_is_what_lies_between_the_first_look_and_the_last() -> None:
    result = between([(10.0, 1.0, 100), (11.0, 1.1, 500), (12.0, 1.5, 1100)])
    assert result == pytest.approx((500.0, 500.0))
    with pytest.raises(NotAvailable, match="take more"):
        between([(10.0, 1.0, 900), (12.0, 1.5, 1100)])


@pytest.mark.slow
def test_the_whole_of_it_on_a_few_events() -> None:
    done = CliRunner().invoke(bench, ["collect", "--events", "20000", "--rounds", "1", "--json"])
    if isinstance(done.exception, NotAvailable):
        assert "over too soon" in str(done.exception)  # a fast machine, and few events
        return
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout.splitlines()[-1])["collect"]["rows"]
    assert [row["interface"] for row in rows] == ["v1 /subscribe", "v2 subscribeEvents"]
    assert all(row["events/s"] > 0 for row in rows)
