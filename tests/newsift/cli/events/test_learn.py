"""`newsift events`: what is learned, shown, published, read back and forgotten."""

import json
import time
from typing import Any

import pytest

from encoder import Encoder
from newsift.statistics.labels import Label
from newsift.statistics.queues import certifies_only
from tests.newsift.cli.events.ferry import ARTICLES, add_posts, add_seeds, is_on, sample_posts
from tests.worker.fake import Command
from tests.worker.kafka_side import LABELS, POSTS, SEEDS, Kafka
from tests.worker.learned import profile_of
from tests.worker.small import ControlTopic
from worker.posts.outcome import Post
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.profile import Profile, read_record

KEY = b"profile|ferry"
HOUR = 3_600_000


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def published(kafka: Kafka) -> Profile | None:
    """The profile that a worker would read."""
    result = [record for record in kafka.records(SEEDS) if record.key == KEY]
    if not result:
        return None
    made = read_record(KEY, result[-1].value)
    assert made is None or isinstance(made, Profile)
    return made


def test_an_event_learns_from_its_posts(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    read = add_posts(kafka)
    done = newsift("events", "learn", "ferry", "--yes", "--json")
    assert done.code == 0, done.err
    (row,) = rows(done.out)
    profile = published(kafka)
    assert profile is not None
    assert (row["published"], row["version"]) == (True, profile.version)
    assert 0.9 * read < row["read"] <= read  # without those that hold no word
    assert profile.made["beta"] > 0
    assert profile.seeds.keys() == ARTICLES.keys()
    posts = {post["id"]: post for post in sample_posts()}
    entered = [posts[name] for platform, name in profile.made["posts"] if platform == "plain"]
    assert len(entered) == len(profile.made["posts"]) > 5
    assert sum(map(is_on, entered)) > 0.7 * len(entered)
    assert not any(certifies_only(("plain", str(post["id"]))) for post in entered)
    assert kafka.records(SEEDS)[-1].headers == [("schema", b"newsift.profile/1")]


def test_what_is_shown_is_what_the_worker_will_do(
    newsift: Command, kafka: Kafka, enc: Encoder
) -> None:
    add_seeds(kafka)
    add_posts(kafka)
    (row,) = rows(newsift("events", "learn", "ferry", "--yes", "--json").out)
    passes, cuts = [], []
    for skipped in (KEY, None):
        book = ControlTopic()
        for record in kafka.records(SEEDS):
            if record.key != skipped:
                book.put(record.key, record.value)
        seeds = SeedEmbedder(enc, 0.001, None).make(book.snapshot())
        posts = enc.posts([str(post["text"]) for post in sample_posts()])
        best = (posts.similarity(seeds.embeddings) >= seeds.thresholds).any(axis=1)
        passes.append(int(best.sum()))
        cuts.append(sorted(seeds.thresholds.tolist()))
    assert [row["passes"]["before"], row["passes"]["after"]] == passes
    assert [row["threshold"]["before"], row["threshold"]["after"]] == cuts
    (listed,) = rows(newsift("events", "list", "--json").out)
    assert (listed["profile"], listed["threshold"]) == ("in force", cuts[1][0])


def test_a_silent_stream_moves_nothing(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    done = newsift("events", "learn", "ferry", "--yes")
    assert "the stream is silent" in done.err
    silent = published(kafka)
    add_posts(kafka, on=False)
    done = newsift("events", "learn", "ferry", "--yes")
    assert "do not agree" in done.err
    assert "nothing new" in done.err
    newsift("events", "forget", "ferry", "--yes")
    assert published(kafka) is None
    done = newsift("events", "learn", "ferry", "--background", "--yes")
    assert done.code == 0, done.err
    bare = published(kafka)
    assert bare is not None
    assert silent is not None
    assert bare.vectors == silent.vectors
    assert (bare.made["beta"], bare.made["posts"]) == (0, [])


def test_a_burst_is_told_from_the_time_before(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    now = int(time.time() * 1000)
    for post in [post for post in sample_posts() if not is_on(post)][:60]:
        kafka.send(POSTS, json.dumps(post).encode(), at=now - 30 * HOUR)
    for post in [post for post in sample_posts() if is_on(post)]:
        kafka.send(POSTS, json.dumps(post).encode(), at=now - HOUR)
    newsift("events", "learn", "ferry", "--since", "24h", "--yes")
    made = published(kafka)
    assert made is not None
    assert made.made["burst"] is True
    assert made.made["attempts"] == 1
    done = newsift("events", "learn", "ferry", "--since", "10m", "--yes", "--json")
    assert rows(done.out)[0]["made"]["attempts"] == 2


def test_labels_that_certify_never_train(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    on = [post for post in sample_posts() if is_on(post)]
    for post in on:
        message = Post(str(post["id"]), "plain", str(post["text"]))
        label = Label("on", "ferry", message, "anna", "2026-11-22T10:00:00Z", "learn")
        kafka.send(LABELS, label.value, label.key)
    done = newsift("events", "learn", "ferry", "--background", "--labels", "--yes", "--json")
    (row,) = rows(done.out)
    train = [post for post in on if not certifies_only(("plain", str(post["id"])))]
    assert 0 < row["made"]["labels"] <= len(train) < len(on)
    assert row["made"]["gained"]


def test_forget_goes_back_a_version_at_a_time(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    newsift("events", "learn", "ferry", "--background", "--yes")
    first = published(kafka)
    add_posts(kafka)
    newsift("events", "learn", "ferry", "--yes")
    second = published(kafka)
    assert first
    assert second
    assert first.version != second.version
    done = newsift("events", "forget", "ferry", "--yes")
    assert "back to the version before" in done.out
    assert published(kafka) == first
    assert "its seeds serve" in newsift("events", "forget", "ferry", "--yes").out
    assert published(kafka) is None
    done = newsift("events", "forget", "ferry", "--yes")
    assert (done.code, "has no profile" in done.err) == (2, True)


def test_a_profile_with_a_promise_is_left_alone(
    newsift: Command, kafka: Kafka, enc: Encoder
) -> None:
    add_seeds(kafka)
    promise = {"precision": 0.8, "confidence": 0.9}
    made = profile_of(enc, "ferry", ARTICLES, threshold=0.3, promise=promise)
    kafka.send(SEEDS, made.value(), KEY)
    done = newsift("events", "learn", "ferry", "--background", "--yes")
    assert done.code == 2
    assert "has a promise" in done.err
    assert published(kafka) == made
    assert "0.8 at 90 %" in newsift("events", "list").out


def test_stale_refused_and_bare_events_are_listed(
    newsift: Command, kafka: Kafka, enc: Encoder
) -> None:
    add_seeds(kafka)
    old = {"fire": ("Another title", "Another text.")}
    kafka.send(SEEDS, profile_of(enc, "ferry", old).value(), KEY)
    kafka.send(SEEDS, b'{"text": "A dam overflows.", "event": "dam \\u001b[31m"}', b"dam")
    kafka.send(SEEDS, b"{}", b"profile|gone\x1b[2J")
    result = {row["event"]: row for row in rows(newsift("events", "list", "--json").out)}
    states = {name: row["profile"] for name, row in result.items()}
    assert states == {"ferry": "stale", "dam \x1b[31m": "none", "gone\x1b[2J": "refused"}
    assert result["ferry"]["why"] == "seeds: 'fire' has changed since"
    assert len(result["ferry"]["thresholds"]) == 2
    shown = newsift("events", "list").out + newsift("events", "show", "gone\x1b[2J").out
    assert "\x1b" not in shown
    assert "stale: seeds: 'fire' has changed since" in shown


def test_hostile_numbers_in_a_record_are_only_shown(
    newsift: Command, kafka: Kafka, enc: Encoder
) -> None:
    add_seeds(kafka)
    odd = {
        "at": "\x1b[31m", "by": ["x"], "posts": 7, "gained": [["a\x1b", "b"], 3, [1, 2, 3]],
        "lost": "all", "attempts": -4, "promises": True, "cohesion": {"a": 1},
    }  # fmt: skip
    bad = {"vectors": "none", "made": "\x1b"}
    made = profile_of(enc, "ferry", ARTICLES, made=odd, before=(bad, {"made": {"at": "\x1b"}}))
    kafka.send(SEEDS, made.value(), KEY)
    for args in (["list"], ["show", "ferry"]):
        done = newsift("events", *args)
        assert (done.code, "\x1b" in done.out) == (0, False), done.err
    assert newsift("events", "learn", "ferry", "--background", "--yes").code == 0
    assert newsift("events", "forget", "ferry", "--yes").code == 0
    assert published(kafka) == made
    assert "its seeds serve" in newsift("events", "forget", "ferry", "--yes").out


def test_hostile_posts_steer_no_terminal(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    text = "Fire on the ferry Astrid Vane off Port Maren \x1b[2J\x1b]0;x\x07\u202e\r\nnine missing"
    kafka.send(POSTS, json.dumps({"id": "\x1b[31m", "text": text}).encode())
    kafka.send(POSTS, b"{broken")
    kafka.send(POSTS, None, b"k")
    done = newsift("events", "learn", "ferry", "--yes")
    assert done.code == 0, done.err
    assert not {"\x1b", "\u202e", "\r", "\x07"} & set(done.out + done.err)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["learn", "gone", "--yes"], "event 'gone': there is none of this name"),
        (["learn", "ferry"], "learn asks before it publishes"),
        (["learn", "ferry", "--yes", "--since", "soon"], "--since 'soon': is no span"),
        (["learn", "ferry", "--yes", "--every", "0.9s"], "is no span of time of a second or more"),
        (["learn", "ferry", "--yes", "--background", "--every", "1m"], "--background needs no"),
        (["learn", "paused", "--yes", "--background"], "has no seed that matches"),
        (["show", "gone"], "event 'gone': there is none of this name"),
        (["forget", "ferry"], "forget asks before it publishes"),
    ],
)
def test_what_is_refused(newsift: Command, kafka: Kafka, args: list[str], message: str) -> None:
    add_seeds(kafka)
    kafka.send(SEEDS, b"{}", b"profile|paused")
    done = newsift("events", *args)
    assert (done.code, done.out, message in done.err) == (2, "", True), done.err
    assert done.err.count("\n") == 1
    assert published(kafka) is None


def test_no_events(newsift: Command, kafka: Kafka) -> None:
    done = newsift("events", "list")
    assert (done.code, done.out) == (0, "")
    assert "no events; add seeds" in done.err
