import json
from collections.abc import Iterator

import pytest

from newsift.broker.server import running
from tests.broker.clients import create
from tests.worker.fake_command import Command

NAMES = ["tweets", "seed-articles", "matched-tweets", "rejected-tweets", "newsift-labels"]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with running(auto_create=False) as address:
        monkeypatch.setenv("NEWSIFT_KAFKA", str(address))
        yield str(address)


@pytest.mark.usefixtures("broker")
def test_create_then_check(newsift: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_TOPICS__PARTITIONS", "1")
    done = newsift("topics", "check", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, [row["topic"] for row in rows]) == (1, NAMES)
    assert set(rows[0]) == {"topic", "setting", "found", "wanted", "why", "fix", "serious"}
    done = newsift("topics", "create")
    assert (done.code, done.out.split()) == (0, NAMES)
    for command in ("create", "check"):
        done = newsift("topics", command)
        assert (done.code, done.out) == (0, "")
    monkeypatch.setenv("NEWSIFT_TOPICS__PARTITIONS", "2")  # this is advice, and no failure
    done = newsift("topics", "check")
    assert (done.code, "tweets: partitions is 1, should be 2" in done.out) == (0, True)


def test_create_reports_an_unfit_topic(newsift: Command, broker: str) -> None:
    create(broker, "seed-articles", partitions=4)
    done = newsift("topics", "create")
    assert (done.code, len(done.out.split())) == (1, 4)
    assert "seed-articles: partitions is 4, must be 1" in done.err
    assert newsift("topics", "create").code == 1
