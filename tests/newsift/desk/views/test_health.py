import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from encoder.errors import InputError
from newsift.collect.state import default_state
from newsift.desk.api import Endpoint
from newsift.desk.session import Desk
from newsift.desk.views import health
from tests.broker.clients import until
from tests.newsift.cli.test_dead_letters import reject
from tests.newsift.desk.client import call
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, Kafka
from worker.config import load_config
from worker.posts.read import Reason

GROUP = "newsift-ingest"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_DESK__WORKERS", "127.0.0.1:1")
    monkeypatch.setattr("newsift.operations.cluster_status.RATE_INTERVAL_S", 0.05)


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
    mine = {row["partition"]: row for row in result["broker"]["partitions"]}
    assert mine == {row["partition"]: row for row in status["posts"]["partitions"]}
    assert [row["lag"] for row in result["broker"]["partitions"]] == [4, 2, 0]
    assert result["collectors"]["rows"] == status["collectors"]


def test_an_unreachable_broker_hides_no_other_part(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKA", "127.0.0.1:1")
    other = Desk(load_config())
    result = looked(other)
    assert "nobody listens there" in result["broker"]["error"]
    assert "lag" not in result["broker"]
    assert result["collectors"]["error"] == ""
    assert "this worker does not answer" in result["workers"]["rows"][0]["error"]
    assert len(result["problems"]) == 1
    summary: Any = call(other, health.summary)
    assert summary["text"] == "no broker"
    other.stop()


def ask(desk: Desk, endpoint: Endpoint, **values: Any) -> Any:
    return call(desk, endpoint, **values | ({"by": "anna"} if endpoint.audit_name else {}))


def test_a_dead_letter_is_shown_with_its_bytes(desk: Desk, kafka: Kafka) -> None:
    reject(kafka, 5)
    result = ask(desk, health.one_letter, partition=0, offset=0)
    assert (result["id"], result["text"], result["key"]) == ("tweets-2-5", '{"id": \\xff', "k")
    assert ["reason", "bad_json"] in result["headers"]
    for place in ((0, 1), (7, 0), (0, 2**62)):
        with pytest.raises(InputError, match="holds none at"):
            ask(desk, health.one_letter, partition=place[0], offset=place[1])


def test_each_dead_letter_is_sent_again_once(desk: Desk, kafka: Kafka, newsift: Command) -> None:
    names = [reject(kafka, n, f"v{n}".encode()) for n in range(3)]
    reject(kafka, 9, None, Reason.POST_BYTES)
    assert ask(desk, health.retry, names=[names[0]])["names"] == [names[0]]
    assert newsift("dead-letters", "retry", names[1]).code == 0
    with desk.health.retrying, pytest.raises(InputError, match="another one is running"):
        ask(desk, health.retry, every=True)
    assert ask(desk, health.retry, reason="no_id")["names"] == []
    result = ask(desk, health.retry, every=True)
    assert (result["count"], result["names"]) == (1, [names[2]])
    assert sorted(result["unsent"].values()) == [1, 2]
    values = sorted(record.value for record in kafka.records(POSTS))
    assert values == [b"v0", b"v1", b"v2"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"names": ["a"], "every": True}, "name letters, or a reason"),
        ({"reason": "x"}, "reason: 'x' is none"),
        ({"names": ["a"] * 201}, "names: "),
        ({"names": ["tweets-9-9"]}, "there is none"),
    ],
)
def test_an_invalid_retry_is_refused(
    desk: Desk, kafka: Kafka, values: dict[str, Any], text: str
) -> None:
    reject(kafka, 1)
    with pytest.raises(InputError, match=text):
        ask(desk, health.retry, **values)
    assert kafka.records(POSTS) == []
