"""`newsift topics create` and `check`, on a broker."""

import json
from collections.abc import Iterator

import pytest

from newsift.broker.server import running
from tests.broker.clients import create
from tests.worker.fake import Command

NAMES = ["tweets", "seed-articles", "matched-tweets", "rejected-tweets", "newsift-labels"]


@pytest.fixture
def broker() -> Iterator[str]:
    with running(auto_create=False) as address:
        yield str(address)


def test_create_then_check(newsift: Command, broker: str) -> None:
    done = newsift("topics", "check", "--kafka", broker)
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("tweets: topic is missing, must be present\n  why: ")
    done = newsift("topics", "create", "--kafka", broker)
    assert (done.code, done.out.split()) == (0, NAMES)
    done = newsift("topics", "create", "--kafka", broker)
    assert (done.code, done.out, done.err) == (0, "", "all topics are there\n")
    done = newsift("topics", "check", "--kafka", broker)
    assert (done.code, done.out, done.err) == (0, "", "all topics are as they should be\n")


def test_advice_alone_is_no_failure(
    newsift: Command, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKA", broker)
    monkeypatch.setenv("NEWSIFT_TOPICS__PARTITIONS", "1")
    assert newsift("topics", "create").code == 0
    monkeypatch.setenv("NEWSIFT_TOPICS__PARTITIONS", "2")
    done = newsift("topics", "check")
    assert done.code == 0
    assert "tweets: partitions is 1, should be 2" in done.out


def test_create_says_what_is_there_and_unfit(newsift: Command, broker: str) -> None:
    create(broker, "seed-articles", partitions=4)
    done = newsift("topics", "create", "--kafka", broker)
    assert (done.code, len(done.out.split())) == (1, 4)
    assert "seed-articles: partitions is 4, must be 1\n  why: " in done.err
    assert "newsift seeds export seeds.jsonl; " in done.err
    assert "all topics are there" not in done.err
    assert newsift("topics", "create", "--kafka", broker).code == 1


def test_json(newsift: Command, broker: str) -> None:
    done = newsift("topics", "check", "--kafka", broker, "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, [row["topic"] for row in rows]) == (1, NAMES)
    assert set(rows[0]) == {"topic", "setting", "found", "wanted", "why", "fix", "serious"}
    done = newsift("topics", "create", "--kafka", broker, "--json")
    assert [json.loads(line)["topic"] for line in done.out.splitlines()] == NAMES
