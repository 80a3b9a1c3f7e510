import csv
import json
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from newsift.broker.server import running
from newsift.cli.matches import Reading, read_span
from newsift.files.rows import parse_match_record
from tests.broker.kafka import free_ports
from tests.worker.command_topics import MATCHES, Kafka
from tests.worker.fake_command import Command
from worker.config import Config, KafkaConfig
from worker.kafka.topics import create_topics

HOUR = 3_600_000


def record(name: str, text: str = "A ferry burns", **seeds: float) -> bytes:
    """A match record as the worker writes it, with seeds by their scores."""
    matches = [
        {
            "match_id": f"{name}-{seed}", "seed_id": seed, "seed_version": "a1b2c3d4e5f6",
            "event": f"event of {seed}", "title": "T", "score": score, "threshold": 0.25,
            "why": [["ferry", 0.4], ["burns", 0.1]],
        }
        for seed, score in (seeds or {"ferry": 0.75}).items()
    ]  # fmt: skip
    value: dict[str, Any] = {
        "post": {"id": name, "platform": "x", "text": text}, "matches": matches,
        "matched": len(matches), "seed_set": "0123456789ab", "model": "ab" * 32,
        "source": {"topic": "tweets", "partition": 1, "offset": 7, "timestamp": 1},
        "processed_at": "2026-01-31T12:34:56.789Z",
    }  # fmt: skip
    return json.dumps(value, ensure_ascii=False).encode()


def rows(out: str) -> list[dict[str, Any]]:
    """The JSON lines that a command printed."""
    return [json.loads(line) for line in out.splitlines()]


def ids(out: str) -> list[str]:
    return [row["post"]["id"] for row in rows(out)]


def test_ignores_unknown_keys_of_a_record() -> None:
    value = json.loads(record("a"))
    plain = parse_match_record(json.dumps(value).encode())
    for part in (value, value["post"], value["source"], value["matches"][0]):
        part["said_later"] = [{"a": None}]
    assert plain is not None
    assert parse_match_record(json.dumps(value).encode()) == plain


def test_json_is_the_whole_record(newsift: Command, kafka: Kafka) -> None:
    sent = [record(str(n), text=f"é {n}\u2028") for n in range(30)]
    for n, value in enumerate(sent):
        kafka.send(MATCHES, value, partition=n % 3)
    done = newsift("matches", "--no-follow", "--json")
    assert (done.code, done.err) == (0, "")
    result = {row["post"]["id"]: row for row in map(json.loads, done.out.split("\n")[:-1])}
    assert result == {str(n): json.loads(value) for n, value in enumerate(sent)}
    assert "é" in done.out
    assert "\\u2028" in done.out


def test_since_begins_at_a_time(newsift: Command, kafka: Kafka) -> None:
    now = int(time.time() * 1000)
    for age in (5, 3, 1):
        kafka.send(MATCHES, record(f"{age}h"), at=now - age * HOUR, partition=0)
    assert ids(newsift("matches", "--since", "4h", "--json").out) == ["3h", "1h"]
    assert ids(newsift("matches", "--since", "2030-01-01T00:00:00Z", "--json").out) == []
    assert ids(newsift("matches", "--since", "52w", "--json", "--limit", "1").out) == ["5h"]


def test_seeds_and_events_can_be_chosen(newsift: Command, kafka: Kafka) -> None:
    kafka.send(MATCHES, record("1", ferry=0.5, dam=0.4), partition=0)
    kafka.send(MATCHES, record("2", dam=0.6), partition=0)
    kafka.send(MATCHES, record("3", probe=0.7), partition=0)

    def chosen(*args: str) -> list[str]:
        return ids(newsift("matches", "--no-follow", "--json", *args).out)

    assert chosen("--seed", "ferry") == ["1"]
    assert chosen("--seed", "ferry", "--seed", "probe") == ["1", "3"]
    assert chosen("--event", "event of dam") == ["1", "2"]
    assert chosen("--event", "event of dam", "--seed", "ferry") == []


def test_the_first_of_each_group_can_be_chosen(newsift: Command, kafka: Kafka) -> None:
    """Those without a word of groups, older ones and those of a backfill, are shown too."""
    for name, hints in (
        ("1", {"group": "1-ferry", "new": True}), ("2", {"group": "1-ferry", "new": False}),
        ("old", {}),
    ):  # fmt: skip
        value = json.dumps(json.loads(record(name)) | hints).encode()
        kafka.send(MATCHES, value, partition=0)
    assert ids(newsift("matches", "--no-follow", "--json").out) == ["1", "2", "old"]
    assert ids(newsift("matches", "--no-follow", "--json", "--new").out) == ["1", "old"]
    lines = newsift("matches", "--no-follow").out.splitlines()
    assert [line[11:16] for line in lines] == ["0.75 ", "0.75=", "0.75 "]


def test_without_a_hit_the_message_names_the_filters(newsift: Command, kafka: Kafka) -> None:
    assert "--new" not in newsift("matches", "--no-follow").err  # the topic is empty
    kafka.send(MATCHES, json.dumps(json.loads(record("1")) | {"new": False}).encode())
    done = newsift("matches", "--no-follow", "--json", "--new")
    assert (done.code, done.out) == (0, "")
    assert "--new" in done.err


def test_a_line_holds_time_score_event_and_highlighted_text(newsift: Command, kafka: Kafka) -> None:
    kafka.send(MATCHES, record("1", text="A #FerryFire:\n\x1b[31mthe ferry burns", a=0.5, b=0.75))
    out = newsift("matches", "--no-follow").out
    assert out == (
        "12:34:56Z  0.75  event of b +1         "
        "A #Ferry[0.40]Fire: [31mthe ferry[0.40] burns[0.10]\n"
    )


def test_counts_records_that_are_no_matches(newsift: Command, kafka: Kafka) -> None:
    for odd in (b"", b"[]", b"{}", b"\xff", b'{"post": 1}', b"[" * 10_000, None):
        kafka.send(MATCHES, odd, key=b"k")
    kafka.send(MATCHES, record("1"))
    done = newsift("matches", "--no-follow", "--json")
    assert ids(done.out) == ["1"]
    assert done.err == "newsift: passed over as no match records: 7\n"


def test_following_prints_what_comes(newsift: Command, kafka: Kafka) -> None:
    """What was there before is not printed; it ends at the limit."""
    kafka.send(MATCHES, record("before"))
    running = threading.Event()

    def write() -> None:
        number = 0
        while not running.wait(0.05):
            kafka.send(MATCHES, record(f"new {number}"), partition=0)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    done = newsift("matches", "--json", "--limit", "3")
    running.set()
    writer.join()
    assert done.code == 0
    result = ids(done.out)
    first = int(result[0].split()[1])
    assert result == [f"new {first + n}" for n in range(3)]


def rows_in(file: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(file)) as db:
        sql = "SELECT post_id, seed_id FROM matches JOIN posts USING (post_key)"
        return sorted(db.execute(sql))


def test_matches_of_one_event_go_into_a_table(newsift: Command, kafka: Kafka) -> None:
    kafka.send(MATCHES, record("a", ferry=0.75, dam=0.5), partition=0)
    kafka.send(MATCHES, record("b", dam=0.5), partition=1)
    done = newsift("matches", "--since", "1h", "--event", "event of ferry", "--out", "m.db")
    assert (done.code, done.out) == (0, ""), done.err
    assert rows_in(Path("m.db")) == [("a", "ferry")]
    newsift("matches", "--no-follow", "--out", "m.csv", "--per", "post")
    with Path("m.csv").open(newline="") as table:
        rows = [(row["post_id"], row["seed_id"]) for row in csv.DictReader(table)]
    assert rows == [("a", "ferry"), ("b", "dam")]


def test_a_broker_that_is_away_is_waited_for(newsift: Command) -> None:
    port = free_ports(1)[0]
    config = replace(Config(), kafka=KafkaConfig(bootstrap_servers=f"127.0.0.1:{port}"))
    done = threading.Event()

    def serve() -> None:
        time.sleep(1)
        with running(port) as broker:
            create_topics(config)
            kafka = Kafka(broker)
            while not done.wait(0.05):
                kafka.send(MATCHES, record("new"), partition=0)

    server = threading.Thread(target=serve)
    server.start()
    args = ("matches", "--json", "--limit", "2", "--kafka", config.kafka.bootstrap_servers)
    result = newsift(*args)
    done.set()
    server.join()
    assert (result.code, len(ids(result.out))) == (0, 2)
    assert result.err.count("waiting for the broker at") == 1
    assert newsift(*args, "--no-wait").code == 1
    assert newsift(*args, "--no-follow").code == 1


def test_after_a_loss_it_goes_on_where_it_was_unless_the_topic_is_another() -> None:
    cluster: Any = SimpleNamespace(
        beginnings=lambda _: {0: 5, 1: 0, 2: 0, 3: 0}, ends=lambda _: {0: 9, 1: 3, 2: 4, 3: 1}
    )
    live, reached = Reading(None, None, None, wait=True), {0: 7, 1: 8, 2: 0}
    start, _ = read_span(cluster, MATCHES, live, reached)
    assert start == {0: 7, 1: 0, 2: 0, 3: 0}
    assert read_span(cluster, MATCHES, live, None)[0] == cluster.ends(MATCHES)
