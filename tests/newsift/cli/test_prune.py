import json
import signal
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import GroupAuthorizationFailedError

from newsift.broker.server import running
from newsift.operations.prune import GROUP
from newsift.statistics.labels import Label
from tests.broker.clients import consumer
from tests.newsift.cli.test_matches import rows
from tests.worker.command_processes import logged
from tests.worker.command_topics import LABELS, MATCHES, POSTS, Kafka, hide
from tests.worker.fake_command import Command
from tests.worker.judged_matches import match, stored_labels
from worker.posts.outcome import Post

BLUESKY = "at://did:plc:ann/app.bsky.feed.post/1"
A, B = [("instance", b"a.example")], [("instance", b"b.example")]
Headers = list[tuple[str, bytes]]


def deletions(kafka: Kafka) -> list[tuple[Any, bytes, dict[str, bytes]]]:
    records = [(r, dict(r.headers)) for r in kafka.records(MATCHES)]
    return [
        (json.loads(record.value), record.key, headers) for record, headers in records
        if headers.get("schema") == b"newsift.deletion/1"
    ]  # fmt: skip


def label_texts(kafka: Kafka) -> dict[str, list[str]]:
    """The texts that each post's label had, one after the other."""
    texts: dict[str, list[str]] = {}
    for label in stored_labels(kafka):
        assert (label.label, label.by, label.probability) == ("on", "ben", 0.5)
        texts.setdefault(label.post.id, []).append(label.post.text)
    return texts


def test_what_the_workers_have_passed_is_pruned_once(newsift: Command, kafka: Kafka) -> None:
    matches: list[tuple[str, str, Headers]] = [
        ("bluesky", BLUESKY, []), ("mastodon", "12", A), ("mastodon", "12", B),
        ("mastodon", "13", []),
    ]  # fmt: skip
    for platform, name, headers in matches:
        value = json.loads(match(name))
        value["post"]["platform"] = platform
        kafka.send(MATCHES, json.dumps(value).encode(), name.encode(), headers)
    for uri in (BLUESKY, BLUESKY, "at://did:plc:ben/app.bsky.feed.post/1"):  # which never matched
        did, collection, rkey = uri.removeprefix("at://").split("/")
        commit = {"operation": "delete", "collection": collection, "rkey": rkey}
        at = {"kind": "commit", "time_us": 1_790_000_000_000_000}
        kafka.send(POSTS, json.dumps({"did": did, "commit": commit} | at).encode(), partition=0)
    for name, headers, sent_at in (("12", B, 1_790_000_001_234), ("12", [], None), ("13", A, None)):
        event = json.dumps({"event": "delete", "payload": name}).encode()
        kafka.send(POSTS, event, headers=headers, at=sent_at, partition=1)
    done = newsift("prune")
    assert (done.code, deletions(kafka)) == (0, [])
    assert "6 messages" in done.err
    kafka.commit("newsift-ingest", POSTS, {0: 3})
    expected = {"post": {"id": BLUESKY, "platform": "bluesky"},
                "deleted_at": "2026-09-21T14:13:20.000Z"}  # fmt: skip
    schema = {"schema": b"newsift.deletion/1"}
    assert newsift("prune").code == 0
    assert deletions(kafka) == [(expected, BLUESKY.encode(), schema)]
    kafka.commit("newsift-ingest", POSTS, {0: 3, 1: 3})
    done = newsift("prune")
    assert "instance is unknown: 1" in done.err
    first, second = sorted(deletions(kafka), key=lambda each: -len(each[1]))
    assert (first[0], second) == (expected, (
        {"post": {"id": "12", "platform": "mastodon"}, "deleted_at": "2026-09-21T14:13:21.234Z"},
        b"12", schema | {"instance": b"b.example"},
    ))  # fmt: skip
    with consumer(kafka.address, group_id="newsift-prune") as client:
        assert [client.committed(TopicPartition(POSTS, p)) for p in range(3)] == [3, 3, 0]
    done = newsift("prune", "--since", "52w")  # and nothing twice
    assert (done.code, len(deletions(kafka))) == (0, 2)
    shown = rows(newsift("matches", "--no-follow", "--json").out)
    assert sorted((row["post"]["platform"], "deleted" in row) for row in shown) == [
        ("bluesky", True), ("mastodon", False), ("mastodon", False), ("mastodon", True),
    ]  # fmt: skip


DELETED = {"post": {"id": "gone", "platform": "x"}, "deleted_at": "2026-03-01T10:00:00Z"}


def fill(kafka: Kafka) -> None:
    """Two matches and their labels; every word of a post's content begins with its name."""
    for name in ("gone", "kept"):
        texts = {key: f"{name}-{key}" for key in ("text", "author", "url")}
        card = {key: f"{name}-{key}" for key in ("url", "title", "description")}
        more = {"alt": [f"{name}-alt"], "links": [f"https://{name}-link.example/"], "card": card}
        value = json.loads(match(name, why=[[f"{name}-word", 0.4]]))
        value["post"] |= texts | more
        kafka.send(MATCHES, json.dumps(value).encode(), name.encode())
        post = Post(name, "x", texts["text"], texts["author"], url=texts["url"])
        label = Label("on", "storm", post, "ben", "2026-03-01T10:00:00Z", "certify", 0.5)
        kafka.send(LABELS, label.value, label.key)


@pytest.mark.parametrize(
    "command",
    [
        "matches --no-follow", "matches --since 1h", "matches --since 1h --csv",
        "matches --no-follow --json", "matches --since 1h --json --follow --limit 2",
        "labels export",
    ],
)  # fmt: skip
def test_no_command_shows_the_content_of_a_deleted_post(
    newsift: Command, kafka: Kafka, command: str
) -> None:
    fill(kafka)
    kafka.send(MATCHES, json.dumps(DELETED).encode(), b"gone")
    done = newsift(*command.split())
    assert (done.code, done.err.count("passed over")) == (0, 0)
    assert "gone-" not in done.out
    assert "kept-text" in done.out
    assert ("gone" in done.out or "deleted" in done.out) == (done.out.count("storm") == 2)


@pytest.mark.parametrize(
    ("command", "topic"),
    [("labels export", MATCHES), ("labels list", LABELS), ("matches --since 1h", MATCHES),
     ("prune", LABELS), ("prune", MATCHES)],
)  # fmt: skip
def test_without_a_right_to_know_nothing_is_shown_or_written(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, command: str, topic: str
) -> None:
    fill(kafka)
    kafka.send(MATCHES, json.dumps(DELETED).encode(), b"gone")
    records = [kafka.records(each) for each in (MATCHES, LABELS)]
    with monkeypatch.context() as patch:
        hide(patch, topic)
        done = newsift(*command.split())
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"no right on the topic {topic}; grant Describe" in done.err
    assert [kafka.records(each) for each in (MATCHES, LABELS)] == records


@pytest.mark.parametrize(("group", "right"), [("newsift-ingest", "Describe"), (GROUP, "Read")])
def test_the_right_on_a_group_is_the_one_that_is_needed(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, group: str, right: str
) -> None:
    read = KafkaAdminClient.list_group_offsets

    def refuse(admin: Any, groups: Any) -> Any:
        if group in groups:
            raise GroupAuthorizationFailedError(group)
        return read(admin, groups)

    monkeypatch.setattr(KafkaAdminClient, "list_group_offsets", refuse)
    done = newsift("prune")
    assert done.code == 2
    assert done.err.endswith(f"no right on the consumer group {group}; grant {right} on it\n")


def test_an_author_s_posts_are_counted_and_pruned_with_their_labels(
    newsift: Command, kafka: Kafka
) -> None:
    fill(kafka)
    near = Post("near", "x", "near-text", "Gone-Author")
    label = Label("on", "storm", near, "ben", "2026-03-01T10:00:00Z", "learn", 0.5)
    kafka.send(LABELS, label.value, label.key)
    arguments = ("prune", "--author", "gone-author", "--platform", "x")
    done = newsift(*arguments)
    assert (done.code, deletions(kafka)) == (2, [])
    assert "--yes" in done.err
    done = newsift(*arguments, "--yes")
    assert (done.code, "2 posts of gone-author on x" in done.err) == (0, True)
    assert {value["post"]["id"] for value, _, _ in deletions(kafka)} == {"gone", "near"}
    assert label_texts(kafka) == {
        "gone": ["gone-text", ""], "kept": ["kept-text"], "near": ["near-text", ""],
    }  # fmt: skip
    done = newsift(*arguments, "--yes")
    assert (done.code, "0 posts of gone-author" in done.err) == (0, True)
    assert len(deletions(kafka)) == 2


@pytest.mark.parametrize(
    "arguments",
    ["--author a", "--platform x", "--author a --platform x --follow",
     "--author a --platform x --since 1h", "--author a --platform mastodon"],
)  # fmt: skip
def test_half_a_name_and_other_options_are_refused(
    newsift: Command, kafka: Kafka, arguments: str
) -> None:
    done = newsift("prune", *arguments.split(), "--yes")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "--author" in done.err


def test_a_missing_topic_is_one_line(newsift: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(auto_create=False) as address:
        monkeypatch.setenv("NEWSIFT_KAFKA", str(address))
        done = newsift("prune")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "newsift topics create" in done.err


def test_it_follows_until_it_is_ended(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKA__REQUEST_TIMEOUT_S", "3")
    fill(kafka)
    with logged(tmp_path, "newsift", "prune", "--follow") as command:
        notice = {"delete": {"status": {"id_str": "gone"}, "timestamp_ms": "1790000000000"}}
        kafka.send(POSTS, json.dumps(notice).encode(), partition=2)
        kafka.commit("newsift-ingest", POSTS, {2: 1})
        command.until(lambda: "" in label_texts(kafka)["gone"])
        assert [value["deleted_at"] for value, *_ in deletions(kafka)] == [
            "2026-09-21T14:13:20.000Z"
        ]
        kafka.address.stop()
        command.wait_for(f"newsift: broker {kafka.address}: ")
        kafka.address.start()
        kafka.send(MATCHES, match("gone"), b"gone")  # by a backfill, or of a second seed set
        command.until(lambda: len(deletions(kafka)) == 2)
        assert command.leave(signal.SIGTERM) == 0
        assert "deletion records written: 1; labels without text now: 1" in command.output
