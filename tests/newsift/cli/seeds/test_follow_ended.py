"""`newsift seeds follow`: seeds that ended long ago are deleted, and only those."""

import json
from typing import Any

import pytest

from newsift.operations.feeds import LINGER
from newsift.operations.times import now_ms
from tests.newsift.cli.seeds.feed_side import Site, feed, item, page, seeds_of
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka
from tests.worker.learned import profile_value

HOUR = 3_600_000
NAME = "fire-on-the-astrid"


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the command believe that so many milliseconds have passed."""

    def wait(span: int) -> None:
        monkeypatch.setattr("newsift.operations.feeds.now_ms", lambda: now_ms() + span)

    return wait


@pytest.fixture
def followed(once: Any, site: Site, kafka: Kafka) -> Any:
    """A feed whose one article is a seed for an hour."""
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"))}
    assert once("--keep", "1h").code == 0
    assert seeds_of(kafka).keys() == {NAME}
    return lambda *more: once("--keep", "1h", *more)


def test_a_seed_that_ended_long_ago_is_deleted_once(
    followed: Any, later: Any, kafka: Kafka
) -> None:
    later(LINGER)  # a worker that lags, or a backfill, may still compare posts with it
    assert "deleted" not in followed().err
    later(LINGER + 2 * HOUR)
    assert "deleted" not in followed("--dry-run").err
    assert seeds_of(kafka)[NAME] is not None
    assert "seeds that ended long ago, deleted: 1" in followed().err
    assert seeds_of(kafka) == {NAME: None}
    assert "deleted" not in followed().err
    assert len(kafka.records(SEEDS)) == 2


@pytest.mark.parametrize("change", [["--title", "Mine"], ["--expires-at", "never"]])
def test_what_people_keep_is_not(
    followed: Any, later: Any, kafka: Kafka, newsift: Command, change: list[str]
) -> None:
    assert newsift("seeds", "set", NAME, *change).code == 0
    later(LINGER + 2 * HOUR)
    assert followed().code == 0
    assert seeds_of(kafka)[NAME] is not None


def test_a_seed_that_a_profile_rests_on_stays_as_long_as_the_profile(
    followed: Any, later: Any, kafka: Kafka
) -> None:
    key = b"profile|ferry"
    kafka.send(SEEDS, profile_value("ferry", {NAME: "0" * 12}), key)
    later(LINGER + 2 * HOUR)
    assert "deleted" not in followed().err
    kafka.send(SEEDS, None, key)
    assert "deleted: 1" in followed().err


def test_where_as_many_seeds_are_there_as_are_allowed_it_adds_none(
    once: Any, site: Site, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_LIMITS__SEEDS", "1")
    kafka.send(SEEDS, json.dumps({"text": "mine"}).encode(), b"mine")
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"))}
    done = once()
    assert done.code == 1
    assert "limits.seeds: 1 are allowed, and as many are there; remove some" in done.err
    kafka.send(SEEDS, None, b"mine")
    assert once().code == 0
    assert seeds_of(kafka)[NAME] is not None
