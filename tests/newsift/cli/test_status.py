import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

from newsift.operations.cluster_status import OffsetSnapshot, message_rates
from tests.broker.clients import consumer, polled, until
from tests.worker.command_topics import MATCHES, POSTS, REJECTED, SEEDS, Kafka, hide
from tests.worker.fake_command import Command
from tests.worker.fake_web_server import answering
from worker.match.pipeline import Outcome
from worker.metrics.registry import Metrics
from worker.stream.partitions import Backlog

GROUP = "newsift-ingest"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.operations.cluster_status.RATE_INTERVAL_S", 0.05)


def status(newsift: Command) -> dict[str, Any]:
    done = newsift("status", "--json")
    assert (done.code, done.err) == (0, "")
    result: dict[str, Any] = json.loads(done.out)
    return result


def test_workers_and_their_partitions(newsift: Command, kafka: Kafka) -> None:
    with consumer(kafka.address, POSTS, group_id=GROUP, client_id="first") as member:
        until(lambda: polled(member) or member.assignment())
        result, output = status(newsift), newsift("status").out
    assert [(row["host"], row["partitions"]) for row in result["workers"]] == [
        ("127.0.0.1", [0, 1, 2])
    ]
    assert {row["worker"] for row in result["posts"]["partitions"]} == {result["workers"][0]["id"]}
    assert result["workers"][0]["id"].startswith("first")
    assert "1 in newsift-ingest (stable)" in output


def test_counts_lag_seeds_and_outputs(newsift: Command, kafka: Kafka) -> None:
    for partition, count in enumerate((5, 7, 2)):
        kafka.fill(POSTS, [b"{}"] * count, partition)
    kafka.commit(GROUP, POSTS, {0: 5, 1: 3})
    kafka.send(SEEDS, b'{"text": "A"}', b"a")
    kafka.send(SEEDS, b'{"text": "B", "expires_at": "2020-01-01T00:00:00Z"}', b"b")
    kafka.send(SEEDS, b"{}", b"odd\x1b")
    kafka.fill(MATCHES, [b"1", b"2"], 1)
    kafka.fill(REJECTED, [b"1"], 2)
    result = status(newsift)
    parts = {row["partition"]: row for row in result["posts"]["partitions"]}
    assert {n: (row["committed"], row["end"], row["lag"]) for n, row in parts.items()} == {
        0: (5, 5, 0), 1: (3, 7, 4), 2: (None, 2, 2),
    }  # fmt: skip
    assert (result["lag"], result["state"]) == (6, "empty")
    assert (result["seeds"]["live"], result["seeds"]["expired"]) == (1, 1)
    assert "text: missing" in result["seeds"]["refused"]["odd\x1b"]
    assert result["matches"] == {"topic": MATCHES, "end_offsets": {"0": 0, "1": 2, "2": 0}}
    assert result["dead_letters"]["end_offsets"] == {"0": 0, "1": 0, "2": 1}
    assert result["reader"] == {"name": "read", "read_factor": 5.0}
    output = newsift("status").out
    assert "1 live, 1 expired, 1 refused" in output
    assert "refused       odd: text: missing" in output


def test_hidden_topics_are_not_called_missing(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.fill(MATCHES, [b"1"])
    assert status(newsift)["hidden"] == []
    hide(monkeypatch, SEEDS, MATCHES)
    result, output = status(newsift), newsift("status").out
    assert result["hidden"] == [SEEDS, MATCHES]
    assert (result["seeds"], result["matches"]["end_offsets"]) == (None, None)
    assert (result["rates"]["matches"], result["hourly"]["matches"]) == (None, None)
    assert output.count("not visible to this user (grant Describe)") == 2
    assert ("missing" in output, "0.0 matches/s" in output) == (False, False)


def test_rates_come_from_two_readings() -> None:
    before = {0: Backlog(0, 4, 10), 1: Backlog(100, None, 300)}
    after = {0: Backlog(0, 8, 30), 1: Backlog(100, 150, 310)}
    result = message_rates(
        OffsetSnapshot(10.0, before, {0: 1}, None), OffsetSnapshot(12.0, after, {0: 2}, {0: 5})
    )
    assert result == {"posts_in": 15.0, "posts_done": 27.0, "matches": 0.5}


def test_posts_that_are_gone_are_no_lag() -> None:
    """Retention may outrun a group, and a new group begins with the first post that is there."""
    now = OffsetSnapshot(0.0, {0: Backlog(90, 20, 100), 1: Backlog(5, None, 9)}, None, None)
    assert now.lag == {0: 10, 1: 4}


def test_what_skimming_loses_is_estimated_from_what_the_workers_read(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status(newsift)["control"] is None  # no worker answers
    metrics = Metrics()
    control = Counter(skimmed=4_000, read=80, lost=2)
    metrics.batch(Outcome(matched=70, linking=3, control=control))
    page = b"HTTP/1.1 200 OK\r\n\r\n" + metrics.render()
    with (
        answering(page) as one,
        answering(page) as other,
        answering(b"HTTP/1.1 200 OK\r\n\r\n\xff") as odd,
    ):
        monkeypatch.setenv("NEWSIFT_DESK__WORKERS", f"{one},{other},{odd}")
        report, table = status(newsift), newsift("status").out
        result = report["control"]
    named = 8_000, np.arange(8_001), 160  # of two workers: 4 of 160
    above, below = stats.hypergeom.sf(3, *named), stats.hypergeom.cdf(4, *named)
    possible = np.flatnonzero((above > 0.05) & (below > 0.05))
    assert result == {
        "skimmed": 8_000, "read": 160, "would_match": 4, "matched": 140, "lost": 200,
        "low": possible[0], "high": possible[-1],
    }  # fmt: skip
    assert report["links"] == 6
    assert "6 posts by a link" in table
    assert f"about 200 posts ({possible[0]:,} to {possible[-1]:,})" in table
