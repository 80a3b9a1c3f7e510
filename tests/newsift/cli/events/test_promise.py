import json
import time

import pytest

from encoder import Encoder
from newsift.statistics.promise import confidence_of_version, labels_missing
from tests.newsift.cli.events.ferry import add_seeds
from tests.newsift.cli.events.promised import (
    KEY,
    add_ferry_posts,
    certifying,
    first_cut,
    label,
    match_all,
    published,
)
from tests.newsift.cli.test_matches import rows
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, SEEDS, Kafka
from worker.match.records import MatchRecord

HOUR = 3_600_000
ONE = confidence_of_version(0.9, 1)


@pytest.fixture
def matched(kafka: Kafka, enc: Encoder, newsift: Command) -> list[MatchRecord]:
    """The matches of an event that has learned from the background."""
    add_seeds(kafka)
    assert newsift("events", "learn", "ferry", "--background", "--yes").code == 0
    add_ferry_posts(kafka)
    return match_all(kafka, enc)


def test_counts_missing_labels_then_sets_a_threshold(
    newsift: Command, kafka: Kafka, matched: list[MatchRecord]
) -> None:
    bare = published(kafka)
    done = newsift("events", "promise", "ferry", "--yes", "--json")
    assert done.code == 0, done.err
    needed = labels_missing(0, 0, 0.8, ONE)
    (row,) = rows(done.out)
    assert (row["threshold"], row["missing"], row["set"]) == (None, needed, False)
    assert published(kafka) == bare

    own = list(certifying(matched))
    assert len(own) > 26
    cut = first_cut(own)
    first = [record for record in own if record.matches[0].score >= cut]
    for record in first[: needed - 1]:
        label(kafka, record, "on")
    done = newsift("events", "promise", "ferry", "--yes", "--json")
    assert rows(done.out)[0]["missing"] == 1
    label(kafka, first[needed - 1], "on")
    done = newsift("events", "promise", "ferry", "--yes", "--json")
    (row,) = rows(done.out)
    assert row["set"] is True
    assert row["threshold"] == cut
    made = published(kafka)
    assert made.threshold == row["threshold"]
    assert made.promise is not None
    assert (made.promise["version"], made.promise["labels"]) == (1, needed)
    assert made.version == bare.version

    (listed,) = rows(newsift("events", "list", "--json").out)
    assert (listed["promise"], listed["lapsed"]) == (made.promise, None)
    assert newsift("events", "learn", "ferry", "--background", "--yes").code == 2
    assert newsift("events", "forget", "ferry", "--yes").code == 0
    assert published(kafka) == bare


def test_without_a_profile_one_comes_first(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    done = newsift("events", "promise", "ferry", "--yes")
    assert done.code == 0, done.err
    assert "a promise is of a profile" in done.err
    assert "newsift labels ask ferry" in done.err
    assert published(kafka).promise is None
    done = newsift("events", "promise", "ferry", "--yes")
    assert "no post has matched this version" in done.err


def test_a_promise_lapses_when_few_posts_pass(
    newsift: Command, kafka: Kafka, matched: list[MatchRecord]
) -> None:
    bare = published(kafka)
    promise = {"precision": 0.8, "confidence": 0.9, "version": 1, "rate": 0.02}
    record = bare.record() | {"threshold": 0.2, "promise": promise}
    kafka.send(SEEDS, json.dumps(record).encode(), KEY)
    assert rows(newsift("events", "list", "--json").out)[0]["lapsed"] is None
    old = int(time.time() * 1000) - 2 * HOUR
    kafka.send(POSTS, b'{"id": "old", "text": "Long ago"}', at=old)
    kafka.fill(POSTS, [b'{"id": "1", "text": "Best tacos"}'] * 1_000)
    (row,) = rows(newsift("events", "list", "--json").out)
    assert "of 1,000 posts passed in the last hour" in row["lapsed"]
    assert "lapsed" in newsift("events", "list").out
    kafka.send(SEEDS, None, b"fire")
    (row,) = rows(newsift("events", "list", "--json").out)
    assert row["lapsed"] == "its profile is stale"
