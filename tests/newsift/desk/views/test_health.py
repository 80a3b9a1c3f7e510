"""The page of health: as `newsift status`; what is away hides no other."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from newsift.collect.state import default_state
from newsift.desk.session import Desk
from newsift.desk.views import health
from tests.newsift.desk.client import call, until
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, Kafka
from worker.config import load_config

GROUP = "newsift-ingest"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NEWSIFT_DESK__WORKERS", "127.0.0.1:1")
    monkeypatch.setattr("newsift.operations.cluster_status.RATE_SECONDS", 0.05)


@pytest.fixture
def desk(kafka: Kafka) -> Iterator[Desk]:
    created = Desk(load_config())
    yield created
    created.stop()


def ended(name: str, at: float) -> None:
    file = default_state(name)
    file.parent.mkdir(exist_ok=True)
    saved = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    content = {"schema": "newsift.collect/1", "source": name, "cursor": 5, "place": "p",
               "at": at, "saved": saved, "gaps": 2, "gap_seconds": 1.5}  # fmt: skip
    file.write_text(json.dumps(content))


def status_of(desk: Desk) -> Any:
    return call(desk, health.health)


def looked(desk: Desk) -> Any:
    parts = ("broker", "workers", "topics", "collectors")
    until(lambda: all(status_of(desk)[part]["since"] for part in parts))
    return status_of(desk)


def test_the_page_reports_what_status_reports(desk: Desk, kafka: Kafka, newsift: Command) -> None:
    for partition, count in {0: 5, 1: 7, 2: 2}.items():
        kafka.fill(POSTS, [b"{}"] * count, partition)
    kafka.commit(GROUP, POSTS, {0: 5, 1: 3})
    ended("bluesky", time.time())
    ended("mastodon", time.time() - 7200)
    status = json.loads(newsift("status", "--json").out)
    result = looked(desk)
    assert result["broker"]["lag"] == status["lag"] == 6
    assert result["broker"]["state"] == status["state"]
    assert result["lags"][-1][1] == 6
    mine = {row["partition"]: row for row in result["broker"]["partitions"]}
    assert mine == {row["partition"]: row for row in status["posts"]["partitions"]}
    assert [row["lag"] for row in result["broker"]["partitions"]] == [4, 2, 0]
    assert result["collectors"]["rows"] == status["collectors"]


def test_the_page_reports_what_topics_check_reports(
    desk: Desk, kafka: Kafka, newsift: Command
) -> None:
    names = {"actual": "found", "required": "wanted"}
    theirs = [json.loads(line) for line in newsift("topics", "check", "--json").out.splitlines()]
    result = looked(desk)
    rows = [{names.get(k, k): v for k, v in row.items()} for row in result["topics"]["rows"]]
    assert rows == theirs
    serious = [row for row in theirs if row["serious"]]
    assert serious  # the control topic of this broker is not compacted
    problems = result["problems"]
    assert all(any(row["fix"][:50] in each for each in problems) for row in serious)


def test_an_unreachable_broker_hides_no_other_part(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKA", "127.0.0.1:1")
    other = Desk(load_config())
    result = looked(other)
    assert "nobody listens there" in result["broker"]["away"]
    assert "lag" not in result["broker"]
    assert result["collectors"]["away"] == ""
    assert "no worker answers" in result["workers"]["rows"][0]["away"]
    assert len(result["problems"]) == 1
    summary: Any = call(other, health.summary)
    assert summary["text"] == "broker away"
    other.stop()
