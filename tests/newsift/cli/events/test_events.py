import json
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from encoder import Encoder
from newsift.statistics.labels import Label, QueueName
from newsift.statistics.queues import is_certify_post
from tests.newsift.cli.events.ferry_event import (
    ARTICLES,
    KEY,
    add_posts,
    add_seeds,
    is_on,
    published,
    sample_posts,
    seed_set,
    versions,
)
from tests.newsift.cli.test_matches import rows
from tests.worker.command_topics import LABELS, MATCHES, POSTS, SEEDS, Kafka
from tests.worker.event_profiles import profile_of
from tests.worker.fake_command import Command
from worker.posts.outcome import Post
from worker.posts.times import HOUR_MS


def test_an_event_learns_and_matches_as_learn_shows(
    newsift: Command, kafka: Kafka, enc: Encoder
) -> None:
    add_seeds(kafka)
    read = add_posts(kafka)
    (row,) = rows(newsift("events", "learn", "ferry", "--yes", "--json").out)
    profile = published(kafka)
    assert (row["published"], row["version"]) == (True, profile.version)
    assert 0.9 * read < row["read"] <= read  # without those that hold no word
    assert profile.seeds.keys() == ARTICLES.keys()
    posts = {post["id"]: post for post in sample_posts()}
    entered = [posts[name] for platform, name in profile.made["posts"] if platform == "plain"]
    assert len(entered) == len(profile.made["posts"]) > 5
    assert sum(map(is_on, entered)) >= 0.7 * len(entered)
    assert not any(is_certify_post(("plain", str(post["id"]))) for post in entered)
    assert kafka.records(SEEDS)[-1].headers == [("schema", b"newsift.profile/1")]
    vectors, passes, cuts = enc.posts([str(post["text"]) for post in sample_posts()]), [], []
    for skipped in (KEY, None):
        seeds = seed_set(kafka, enc, skipped)
        matched = (vectors.similarity(seeds.embeddings) >= seeds.thresholds).any(axis=1)
        passes.append(int(matched.sum()))
        cuts.append(sorted(seeds.thresholds.tolist()))
    assert [row["passes"]["before"], row["passes"]["after"]] == passes
    assert [row["threshold"]["before"], row["threshold"]["after"]] == cuts
    (listed,) = rows(newsift("events", "list", "--json").out)
    assert (listed["profile"], listed["threshold"]) == ("in force", cuts[1][0])


def test_a_deleted_post_neither_trains_nor_is_shown(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    add_posts(kafka)
    learn = ("events", "learn", "ferry", "--json", "--yes")
    (row,) = rows(newsift(*learn).out)
    used = {name for _, name in row["made"]["posts"]}
    shown = {post["id"] for post in row["new_matches"] + row["lost_matches"]}
    assert used
    assert shown
    for name in used | shown:
        record = {"post": {"id": name, "platform": "plain"}, "deleted_at": "2026-03-01T10:00:00Z"}
        kafka.send(MATCHES, json.dumps(record).encode(), name.encode())
    (again,) = rows(newsift(*learn).out)
    assert again["read"] == row["read"] - len(used | shown)
    assert not used & {name for _, name in again["made"]["posts"]}
    assert not shown & {post["id"] for post in again["new_matches"] + again["lost_matches"]}


def test_labels_that_certify_never_train(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    on = [post for post in sample_posts() if is_on(post)]
    for post in on:
        message = Post(str(post["id"]), "plain", str(post["text"]))
        label = Label("on", "ferry", message, "anna", "2026-11-22T10:00:00Z", "learn")
        kafka.send(LABELS, label.value, label.key)
    done = newsift("events", "learn", "ferry", "--background", "--labels", "--yes", "--json")
    (row,) = rows(done.out)
    train = [post for post in on if not is_certify_post(("plain", str(post["id"])))]
    assert 0 < row["made"]["labels"] <= len(train) < len(on)
    assert row["made"]["gained"]


def test_forget_goes_back_a_version_at_a_time(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    newsift("events", "learn", "ferry", "--background", "--yes")
    first = published(kafka)
    add_posts(kafka)
    newsift("events", "learn", "ferry", "--yes")
    second = published(kafka)
    assert first.version != second.version
    done = newsift("events", "forget", "ferry", "--yes")
    assert "back to the previous version" in done.out
    assert published(kafka) == first
    assert "its seeds are used" in newsift("events", "forget", "ferry", "--yes").out
    assert kafka.records(SEEDS)[-1].value is None
    done = newsift("events", "forget", "ferry", "--yes")
    assert (done.code, "has no profile" in done.err) == (2, True)


def test_lists_stale_refused_and_bare_events(newsift: Command, kafka: Kafka, enc: Encoder) -> None:
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
    assert shown.count(" auto") == 2
    kafka.send(SEEDS, b'{"text": "A dam overflows.", "threshold": 0.4}', b"dam")
    (own,) = [line for line in newsift("events", "list").out.splitlines() if "0.4000" in line]
    assert " auto" not in own
    assert [row["expired"] for row in result.values()] == [[], [], []]
    kafka.send(SEEDS, b'{"text": "A dam.", "expires_at": "2020-01-01T00:00:00Z"}', b"dam")
    (own,) = [line for line in newsift("events", "list").out.splitlines() if "dam" in line]
    assert "1 (1 expired)" in own


def test_shows_hostile_values_of_a_record(newsift: Command, kafka: Kafka, enc: Encoder) -> None:
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


def test_every_learns_again_until_sigterm(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(_: float) -> None:
        if len(versions(kafka)) == 2:
            signal.raise_signal(signal.SIGTERM)
        text = "Ferry Astrid Vane on fire, lifeboat {} of the Astrid Vane reached Port Maren"
        kafka.fill(POSTS, [json.dumps({"id": f"n{n}", "text": text.format(n)}).encode()
                           for n in range(8)])  # fmt: skip

    monkeypatch.setattr("newsift.cli.events.time", SimpleNamespace(sleep=pause))
    add_seeds(kafka)
    now = int(time.time() * 1000)  # the event begins after a day without it
    for post in [post for post in sample_posts() if not is_on(post)][:80]:
        kafka.send(POSTS, json.dumps(post).encode(), at=now - 30 * HOUR_MS)
    for post in filter(is_on, sample_posts()):
        kafka.send(POSTS, json.dumps(post).encode(), at=now - HOUR_MS)
    done = newsift("events", "learn", "ferry", "--yes", "--every", "1s")
    assert (done.code, "Traceback" in done.err) == (0, False), done.err
    assert versions(kafka)[-1].before


def test_every_publishes_nothing_without_enough_history(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    add_posts(kafka)
    done = newsift("events", "learn", "ferry", "--yes", "--every", "1s")
    assert done.code == 0
    assert "it would not be safe: too little history" in done.err
    assert versions(kafka) == []


def share_in_order(matched: list[dict[str, Any]], on: set[str]) -> float:
    """Of pairs of a right match and a wrong one, the share where the right one scores higher."""
    best: dict[str, float] = {row["post"]["id"]: row["matches"][0]["score"] for row in matched}
    pairs = [best[a] > best[b] for a in best.keys() & on for b in best.keys() - on]
    return sum(pairs) / len(pairs)


def test_learns_the_same_from_files_and_topic(
    newsift: Command, tmp_path: Path, kafka: Kafka
) -> None:
    posts, folder = tmp_path / "posts.jsonl", tmp_path / "seeds"
    folder.mkdir()
    for name, (title, text) in ARTICLES.items():
        record = {"title": title, "text": text, "event": "ferry"}
        (folder / f"{name}.json").write_text(json.dumps(record))
    lines = [json.dumps(post) for post in sample_posts()]
    posts.write_text("\n".join([*lines, "{broken"]) + "\n")
    seeds = ("--seeds", folder)
    plain = rows(newsift("filter", posts, *seeds).out)
    result = rows(newsift("filter", posts, *seeds, "--learn").out)
    assert {match["seed_id"] for row in result for match in row["matches"]} == {"profile|ferry"}
    on = {str(post["id"]) for post in sample_posts() if is_on(post)}
    wrong = [len({row["post"]["id"] for row in each} - on) for each in (plain, result)]
    right = [len({row["post"]["id"] for row in each} & on) for each in (plain, result)]
    assert wrong[1] <= wrong[0]
    assert right[1] >= right[0] - 2
    assert share_in_order(result, on) > share_in_order(plain, on)
    other = newsift("filter", "-", *seeds, "--learn-from", posts, stdin=posts.read_bytes())
    assert [row["matches"] for row in rows(other.out)] == [row["matches"] for row in result]
    add_seeds(kafka)
    add_posts(kafka)
    (row,) = rows(newsift("events", "learn", "ferry", "--yes", "--json").out)
    assert {m["seed_version"] for each in result for m in each["matches"]} == {row["version"]}


def test_without_a_profile_one_comes_first(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    done = newsift("events", "promise", "ferry", "--yes")
    assert done.code == 0, done.err
    assert "a promise needs a profile" in done.err
    assert "newsift labels ask ferry" in done.err
    assert published(kafka).promise is None
    done = newsift("events", "promise", "ferry", "--yes")
    assert "no post has matched this version" in done.err


def test_a_promise_is_of_the_labels_goal(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    newsift("events", "learn", "ferry", "--background", "--yes")
    queue = QueueName("n", "2026-11-22T10:00:00Z", (0.9, 0.95))
    label = Label(
        "on", "ferry", Post("1", "plain", "fire"), "anna", "2026-11-22T10:00:00Z", "certify",
        probability=0.5, score=0.5, queue=queue,
    )  # fmt: skip
    kafka.send(LABELS, label.value, label.key)
    for options, goal in (((), (0.9, 0.95)), (("--precision", "0.7"), (0.7, 0.95))):
        done = newsift("events", "promise", "ferry", "--yes", "--json", *options)
        (row,) = rows(done.out)
        assert (row["precision"], row["confidence"]) == goal, done.err


def test_a_promise_lapses_when_few_posts_pass(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    assert newsift("events", "learn", "ferry", "--background", "--yes").code == 0
    promise = {"precision": 0.8, "confidence": 0.9, "test": 1, "rate": 0.02}
    record = published(kafka).record() | {"threshold": 0.2, "promise": promise}
    kafka.send(SEEDS, json.dumps(record).encode(), KEY)
    assert rows(newsift("events", "list", "--json").out)[0]["lapsed"] is None
    old = int(time.time() * 1000) - 2 * HOUR_MS
    kafka.send(POSTS, b'{"id": "old", "text": "Long ago"}', at=old)
    kafka.fill(POSTS, [b'{"id": "1", "text": "Best tacos"}'] * 1_000)
    (row,) = rows(newsift("events", "list", "--json").out)
    assert "of 1,000 posts passed in the last hour" in row["lapsed"]
    assert "lapsed" in newsift("events", "list").out
    kafka.commit("newsift-ingest", POSTS, {0: 400})  # the worker catches up
    assert rows(newsift("events", "list", "--json").out)[0]["lapsed"] is None
    kafka.send(SEEDS, None, b"fire")
    (row,) = rows(newsift("events", "list", "--json").out)
    assert row["lapsed"] == "its profile is stale"
    for command in ("learn", "promise"):  # neither sends to the other
        done = newsift("events", command, "ferry", "--yes")
        assert done.code == 2
        assert "'fire' does not exist any more" in done.err
        assert "undo that, or give" in done.err
        assert "events forget" in done.err
