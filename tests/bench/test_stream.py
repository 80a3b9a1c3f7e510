"""The pieces of `newsift bench stream` that need no worker, and the whole of it on a few posts."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner

import encoder
from bench.cli import bench
from bench.stream import (
    Measured,
    StreamScene,
    WatchedWorker,
    post_records,
    readings,
    rounds_of,
    seed_records,
    speed_part,
    threshold_for,
)
from encoder.errors import InputError
from encoder.model_directory import write_model
from newsift.broker.server import running
from newsift.cli.processes import WorkerProcess
from tests.encoder.small import WORDS, small_model


def texts(count: int) -> list[str]:
    rng = np.random.default_rng(1)
    return [" ".join(rng.choice(WORDS, 5)) for _ in range(count)]


def test_posts_have_ids_of_their_own_and_the_texts_over_and_over() -> None:
    records = [(key, json.loads(value)) for key, value in post_records(["a", "ü"], 5)]
    assert [key for key, _ in records] == [b"0", b"1", b"2", b"3", b"4"]
    assert [value["text"] for _, value in records] == ["a", "ü", "a", "ü", "a"]
    assert all(value["id"] == key.decode() for key, value in records)


def test_seeds_share_one_threshold() -> None:
    (key, value), _ = seed_records([("T", "text"), ("", "other")], 0.25)
    assert (key, json.loads(value)["threshold"]) == (b"seed-00000", 0.25)


def test_the_threshold_lets_the_share_pass(tmp_path: Path) -> None:
    write_model(tmp_path / "m", small_model())
    enc = encoder.load(tmp_path / "m")
    posts, articles = texts(600), [("", text) for text in texts(4)]
    cut = threshold_for(enc, posts, articles, 0.1)
    best = enc.posts(posts).similarity(enc.articles(articles)).max(1)
    assert 0.08 < float((best >= cut).mean()) < 0.13


def test_a_scene_holds_what_was_published() -> None:
    with running() as address:
        scene = StreamScene.fresh(str(address))
        scene.create("posts", 4, {})
        assert scene.publish("posts", post_records(["a"], 10)) == 10
        assert scene.committed("nobody") == 0


def test_every_row_runs_once_a_round() -> None:
    ran: Counter[str] = Counter()

    def row(name: str, rate: float) -> Measured:
        ran[name] += 1
        return Measured(rate * ran[name], 5.0)

    rows = {"a": lambda: row("a", 100), "b": lambda: row("b", 50), "c": lambda: row("c", 10)}
    found = rounds_of(rows, 3, lambda line: None)
    assert ran == {"a": 3, "b": 3, "c": 3}
    part = speed_part(found)
    assert part.rows[1] == ("b", 100, 50, 150, 0.5, 5, 5)


def test_memory_and_cpu_are_read_from_the_process(tmp_path: Path) -> None:
    program = "x = bytearray(80 << 20)\nfor i in range(3 * 10**6): pass\nprint('there')\ninput()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-uc", program], stdin=pipe, stdout=pipe) as process:
        worker = WatchedWorker(WorkerProcess(process, 1, tmp_path / "log"), "group")
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        assert 80 < worker.resident() < 200
        assert 0.02 < worker.cpu() < 20
        process.communicate(b"\n")


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(InputError, match="--only: speeed is no part"):
        CliRunner().invoke(bench, ["stream", "--only", "speeed"], catch_exceptions=False)


class Played:
    """A worker that needs 20 µs a post and a megabyte a million, on a broker that commits."""

    group = "group"

    def __init__(self) -> None:
        self.done = 0

    def committed(self, _group: str) -> int:
        self.done += 500
        return self.done

    def cpu(self) -> float:
        return 3.0 + 20e-6 * self.done

    def resident(self) -> float:
        return 600 + self.done / 1e6

    def check(self) -> None:
        """It runs."""


def test_every_tenth_says_what_a_post_cost_since_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    played = cast(Any, Played())
    found = readings(played, played, 20_000, [0], lambda line: None)
    assert [at.posts for at in found] == [2000 * n for n in range(1, 11)]
    assert [at.cost for at in found] == pytest.approx([20.0] * 10)
    assert found[-1].resident == pytest.approx(600.02)
