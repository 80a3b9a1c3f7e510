"""The collectors that `newsift status` knows of: by their state files, and who has their locks."""

import json
from pathlib import Path

import pytest

from tests.worker.fake import Command
from tests.worker.kafka_side import Kafka
from worker.sources.frame import Gap, Mark
from worker.sources.known import known_collectors
from worker.sources.state import State, default_state

AT = 1_725_911_162.5
TOLD = "2024-09-09T19:46:02.500Z"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_STATE", str(tmp_path / "state"))


def test_nobody_has_ever_run() -> None:
    assert list(known_collectors()) == []


def test_who_runs_and_how_far_each_came() -> None:
    with State(default_state("bluesky"), "bluesky") as state:
        state.store(Mark(17, "jetstream.test", AT))
    with State(default_state("x"), "x"):
        rows = {row["source"]: row for row in known_collectors()}
    assert rows.keys() == {"bluesky", "x"}
    assert (rows["bluesky"]["running"], rows["bluesky"]["last_post_at"]) == (False, TOLD)
    assert (rows["x"]["running"], rows["x"]["saved_at"]) == (True, None)
    assert [row["running"] for row in known_collectors()] == [False, False]


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b"{}", b'{"schema": 1}', b"x" * 2**17, b"[" * 9999]
)
def test_a_file_that_is_none_is_named_alone(content: bytes) -> None:
    file = default_state("odd")
    file.parent.mkdir()
    file.write_bytes(content)
    (row,) = known_collectors()
    assert row == {
        "source": "odd", "running": False, "last_post_at": None, "saved_at": None,
        "gaps": 0, "gap_seconds": 0.0, "state": str(file),
    }  # fmt: skip


def test_a_time_beyond_all_years_is_told() -> None:
    with State(default_state("odd"), "odd") as state:
        state.store(Mark(1, "h", 1e308))
    (row,) = known_collectors()
    assert row["last_post_at"].startswith("9999-")


def test_status_tells_of_them(newsift: Command, kafka: Kafka) -> None:
    with State(default_state("bluesky"), "bluesky") as state:
        state.note(Gap("too old", 90.0))
        state.store(Mark(17, "h", AT))
        told = newsift("status").out
    (line,) = [line for line in told.splitlines() if line.startswith("collector ")]
    assert line.startswith("collector     bluesky: running; acknowledged at 20")
    assert line.endswith(f", a post of {TOLD}; gaps: 1, of those known 90 s")
    (found,) = json.loads(newsift("status", "--json").out)["collectors"]
    assert (found["source"], found["running"]) == ("bluesky", False)
