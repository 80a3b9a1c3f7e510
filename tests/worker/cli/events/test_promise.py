"""`newsift events promise`: what labels of a profile's own matches show, and what is set."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from encoder import Encoder
from tests.worker.cli.events.ferry import add_seeds
from tests.worker.fake import Command
from tests.worker.kafka_side import LABELS, MATCHES, POSTS, SEEDS, Kafka
from worker.actions.offline import present
from worker.files.matches import read_match
from worker.judge.anytime import labels_missing
from worker.judge.draw import certifies_only, draw_key
from worker.judge.labels import Label
from worker.judge.promise import confidence_of_version
from worker.match.pipeline import Pipeline
from worker.match.records import MatchRecord
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.profile import Profile, read_record
from worker.seeds.set import SeedBook

KEY = b"profile|ferry"
PLACES = ("the car deck", "Port Maren", "the Sound of Tarrow", "the harbour", "deck two")
PEOPLE = ("passengers", "nine people", "my aunt", "the crew", "two lifeboats", "a lorry driver")
HOUR = 3_600_000
ONE = confidence_of_version(0.9, 1)


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def published(kafka: Kafka) -> Profile:
    found = [record for record in kafka.records(SEEDS) if record.key == KEY]
    made = read_record(KEY, found[-1].value)
    assert isinstance(made, Profile)
    return made


@pytest.fixture
def matched(kafka: Kafka, enc: Encoder, newsift: Command) -> Callable[[], list[MatchRecord]]:
    """Let an event learn from the background; then each call is a worker that matches all posts."""
    add_seeds(kafka)
    assert newsift("events", "learn", "ferry", "--background", "--yes").code == 0
    texts = [f"Fire on the ferry Astrid Vane: {who} at {where}, {n} hours"
             for n, who in enumerate(PEOPLE) for where in PLACES for _ in range(2)]  # fmt: skip
    values = [json.dumps({"id": f"p{n}", "text": text}).encode() for n, text in enumerate(texts)]
    kafka.fill(POSTS, values)

    def match() -> list[MatchRecord]:
        book = SeedBook()
        for record in kafka.records(SEEDS):
            book.apply(record.key, record.value)
        seeds = SeedEmbedder(enc, 0.001, None).make(book)
        made = Pipeline(enc).run(kafka.records(POSTS), seeds, present).records
        kafka.fill(MATCHES, [each.value for each in made if each.value])
        return [found for each in made if (found := read_match(each.value))]

    return match


def drawn(records: list[MatchRecord]) -> Iterator[MatchRecord]:
    """The matches that can certify, in the order of the draw."""
    own = [r for r in records if certifies_only((r.post.platform, r.post.id))]
    return iter(sorted(own, key=lambda r: draw_key((r.post.platform, r.post.id))))


def label(kafka: Kafka, record: MatchRecord, verdict: Any, by: str = "anna") -> None:
    score = record.matches[0].score
    told = Label(verdict, "ferry", record.post, by, present(), "certify", 0.5, score)
    kafka.send(LABELS, told.value, told.key)


def test_it_counts_what_is_missing_then_shows_a_threshold(
    newsift: Command, kafka: Kafka, matched: Callable[[], list[MatchRecord]]
) -> None:
    records = matched()
    bare = published(kafka)
    done = newsift("events", "promise", "ferry", "--yes", "--json")
    assert done.code == 0, done.err
    needed = labels_missing(0, 0, 0.8, ONE)
    assert (
        rows(done.out)[0] | {"threshold": None, "missing": needed, "set": False}
        == rows(done.out)[0]
    )
    assert published(kafka) == bare

    own = list(drawn(records))
    assert len(own) > 26
    best = sorted(own, key=lambda r: -r.matches[0].score)[:25]
    first = [record for record in own if record in best]
    for record in first[: needed - 1]:
        label(kafka, record, "on")
    done = newsift("events", "promise", "ferry", "--yes", "--json")
    assert rows(done.out)[0]["missing"] == 1
    label(kafka, first[needed - 1], "on")
    done = newsift("events", "promise", "ferry", "--yes", "--json")
    (row,) = rows(done.out)
    assert row["set"] is True
    assert row["threshold"] == min(record.matches[0].score for record in best)
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


def test_wrong_labels_show_nothing(
    newsift: Command, kafka: Kafka, matched: Callable[[], list[MatchRecord]]
) -> None:
    for n, record in enumerate(drawn(matched())):
        label(kafka, record, "on" if n % 2 else "unsure")
    done = newsift("events", "promise", "ferry", "--yes")
    assert "not shown by" in done.out
    assert "these matches can show no more" in done.err
    assert published(kafka).promise is None


def test_two_who_disagree_and_labels_that_train_certify_nothing(
    newsift: Command, kafka: Kafka, matched: Callable[[], list[MatchRecord]]
) -> None:
    own = list(drawn(matched()))
    for record in own:
        label(kafka, record, "on")
        label(kafka, record, "off", by="ben")
    (row,) = rows(newsift("events", "promise", "ferry", "--yes", "--json").out)
    assert (row["on"], row["threshold"]) == (0, None)


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
    newsift: Command, kafka: Kafka, matched: Callable[[], list[MatchRecord]]
) -> None:
    matched()
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


@pytest.mark.parametrize("promise", [{}, {"precision": 2.0, "rate": 0.5}, {"precision": "\x1b"}])
def test_a_promise_that_cannot_be_read_is_said(
    newsift: Command, kafka: Kafka, matched: Callable[[], list[MatchRecord]], promise: Any
) -> None:
    record = published(kafka).record() | {"promise": promise}
    kafka.send(SEEDS, json.dumps(record).encode(), KEY)
    done = newsift("events", "list")
    assert "its record cannot be read" in done.out
    assert "\x1b" not in done.out


def test_a_stale_profile_is_not_promised(
    newsift: Command, kafka: Kafka, matched: Callable[[], list[MatchRecord]]
) -> None:
    matched()
    kafka.send(SEEDS, None, b"fire")
    done = newsift("events", "promise", "ferry", "--yes")
    assert (done.code, "its profile is stale" in done.err) == (2, True)
