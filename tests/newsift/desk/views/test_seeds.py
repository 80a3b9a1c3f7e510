"""Seeds that are listed, changed, removed and brought back on the desk, by one or two people."""

import json
import time
from typing import Any

import pytest

from encoder import Encoder
from encoder.errors import InputError
from tests.newsift.cli.events.ferry import ARTICLES, add_seeds
from tests.newsift.desk.client import Client
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka
from tests.worker.loaded_once import enc, loaded_once

__all__ = ["enc", "loaded_once"]

HOSTILE = "x</script><img src=x onerror=alert(1)>\u202e\x1b[31m|'\""


def latest(kafka: Kafka) -> dict[bytes, bytes | None]:
    return {record.key: record.value for record in kafka.records(SEEDS)}


def listed(ask: Client, **question: Any) -> dict[str, Any]:
    """The rows of the list by id."""
    return {row["id"]: row for row in ask("/api/seeds", **question)["rows"]}


def known(ask: Client, name: str, **text: Any) -> Any:
    """A seed as the list shows it, once it says this."""
    result = ask.until(
        "/api/seeds",
        lambda answer: any(
            row["id"] == name and text.items() <= row.items() for row in answer["rows"]
        ),
    )
    return next(row for row in result["rows"] if row["id"] == name)


def test_every_seed_stands_there_with_what_the_command_says_of_it(
    ask: Client, kafka: Kafka, newsift: Command
) -> None:
    add_seeds(kafka)
    kafka.send(SEEDS, b'{"text": "A ferry burns.", "threshold": 0.5, "paused": true}', b"own")
    kafka.send(SEEDS, b'{"text": "Old news.", "expires_at": "2020-01-01T00:00:00Z"}', b"old")
    kafka.send(SEEDS, b'{"title": "no text"}', b"bare")
    kafka.send(SEEDS, "{'text': '🔥🔥'}".replace("'", '"').encode(), b"wordless")
    kafka.send(SEEDS, b"\xff", b"\xfe")
    answer = ask.until("/api/seeds", lambda answer: answer["total"] == 7)
    data = {
        row["id"]: row
        for row in map(json.loads, newsift("seeds", "list", "--json").out.splitlines())
    }
    assert {row["id"] for row in answer["rows"]} == data.keys()
    for row in answer["rows"]:
        theirs = data[row["id"]]
        names = ("state", "event", "threshold", "expires_at", "seed_version", "reason")
        assert [row.get(name) for name in names] == [theirs.get(name) for name in names]
        assert row.get("cut") == pytest.approx(theirs.get("auto_threshold", row.get("cut")))
    assert [row["id"] for row in answer["refused"]] == ["\\xfe", "bare", "wordless"]
    assert all(row["reason"] for row in answer["refused"])
    assert answer["states"] == {"live": 2, "refused": 3, "paused": 1, "expired": 1}
    assert answer["events"] == ["ferry", "old", "own"]
    assert sorted(listed(ask, search="FERRY astrid")) == ["fire"]
    assert (ask("/api/seeds", most=2)["matching"], len(listed(ask, most=2))) == (7, 2)


def test_one_is_shown_whole_with_the_words_that_carry_it(
    ask: Client, kafka: Kafka, enc: Encoder
) -> None:
    add_seeds(kafka)
    known(ask, "fire")
    row = ask("/api/seed", id="fire")
    title, text = ARTICLES["fire"]
    assert (row["title"], row["text"], row["event"]) == (title, text, "ferry")
    words = dict(row["words"])
    weights = {word.casefold(): weight for word, weight in words.items()}
    assert weights["astrid"] > weights.get("of", 0.0)
    row_of_it = enc.articles([(title, text)]).lexical
    assert max(words.values()) == pytest.approx(row_of_it.weights.max(), abs=1e-4)
    with pytest.raises(InputError, match="there is none of this id"):
        ask("/api/seed", id="nobody")


def test_what_is_set_is_what_the_command_would_set(
    ask: Client, kafka: Kafka, newsift: Command
) -> None:
    value = b'{"text": "A ferry burns.", "kept": [1], "title": "Fire"}'
    for name in (b"mine", b"theirs"):
        kafka.send(SEEDS, value, name)
    row = known(ask, "mine")
    ends = "2027-01-31T12:00:00Z"
    ask("/api/seeds/set", id="mine", mark=row["mark"], threshold=0.25, event="f", expires_at=ends)
    options = ["--threshold", "0.25", "--event", "f", "--expires-at", ends]
    assert newsift("seeds", "set", "theirs", *options).code == 0
    result = latest(kafka)
    assert result[b"mine"] == result[b"theirs"] != value
    row = known(ask, "mine", threshold=0.25)
    ask("/api/seeds/set", id="mine", mark=row["mark"], threshold=None, expires_at=None, paused=True)
    options = ["--threshold", "auto", "--expires-at", "never", "--paused"]
    assert newsift("seeds", "set", "theirs", *options).code == 0
    result = latest(kafka)
    assert result[b"mine"] == result[b"theirs"]
    row = known(ask, "mine", state="paused")
    ask("/api/seeds/set", id="mine", mark=row["mark"], paused=False)
    assert known(ask, "mine", state="live")["event"] == "f"
    assert b"paused" not in (latest(kafka)[b"mine"] or b"paused")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"threshold": 2.0}, "threshold: 2 is not above 0 and at most 1"),
        ({"event": "é" * 121}, "event: 242 bytes, 240 are allowed"),
        ({"expires_at": "soon"}, "ends 'soon': is no time"),
        ({"title": "x" * 1025}, "title: 1025 characters, 1024 are allowed"),
    ],
)
def test_what_workers_would_refuse_is_not_published(
    ask: Client, kafka: Kafka, changes: dict[str, Any], text: str
) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns."}', b"a")
    row = known(ask, "a")
    with pytest.raises(InputError, match=text):
        ask("/api/seeds/set", id="a", mark=row["mark"], **changes)
    assert len(kafka.records(SEEDS)) == 1


def test_the_second_of_two_who_change_the_same_seed_is_told(ask: Client, kafka: Kafka) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns."}', b"a")
    seen_by_both = known(ask, "a")["mark"]
    ask("/api/seeds/set", by="ada", id="a", mark=seen_by_both, event="ferry")
    for act, more in (("set", {"event": "fire"}), ("remove", {})):
        with pytest.raises(InputError, match="'a': has been changed by somebody since you looked"):
            ask(f"/api/seeds/{act}", by="ben", id="a", mark=seen_by_both, **more)
    assert json.loads(latest(kafka)[b"a"] or b"")["event"] == "ferry"
    ask("/api/seeds/remove", by="ada", id="a", mark=known(ask, "a", event="ferry")["mark"])
    with pytest.raises(InputError, match="there is none of this id"):
        ask("/api/seeds/set", by="ben", id="a", mark=seen_by_both, event="fire")


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"a", b'{"text": "A ferry burns.", "n": 1.0}'), (b"\xfe/../", b"\xff no record")],
)
def test_what_was_removed_comes_back_to_the_byte(
    ask: Client, kafka: Kafka, key: bytes, value: bytes
) -> None:
    kafka.send(SEEDS, value, key)
    name = key.decode("utf-8", "backslashreplace")
    data = ask("/api/seeds/remove", by="ada", id=name, mark=known(ask, name)["mark"])
    assert latest(kafka)[key] is None
    answer = ask.until("/api/seeds", lambda answer: not answer["rows"])
    assert answer["removed"] == data == {"number": data["number"], "id": name, "by": "ada"}
    ask("/api/seeds/undo", by="ben", number=data["number"])
    assert latest(kafka)[key] == value
    assert ask("/api/seeds")["removed"] is None
    with pytest.raises(InputError, match="cannot be undone any more"):
        ask("/api/seeds/undo", by="ben", number=data["number"])


def test_a_removal_is_not_undone_over_what_somebody_has_published_since(
    ask: Client, kafka: Kafka
) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns."}', b"a")
    answer = ask("/api/seeds/remove", id="a", mark=known(ask, "a")["mark"])
    kafka.send(SEEDS, b'{"text": "Another ferry."}', b"a")
    with pytest.raises(InputError, match="'a': exists again; it is left as it is"):
        ask("/api/seeds/undo", number=answer["number"])
    assert latest(kafka)[b"a"] == b'{"text": "Another ferry."}'


def test_hostile_records_are_listed_within_bounds(ask: Client, kafka: Kafka) -> None:
    value = {"text": HOSTILE * 100, "title": HOSTILE * 20, "event": HOSTILE, "url": "javascript:1"}
    kafka.send(SEEDS, json.dumps(value).encode(), HOSTILE.encode())
    kafka.send(SEEDS, b'{"text": "' + b"a " * 2**18 + b'"}', b"large")
    kafka.send(SEEDS, b"[" * 100_000, b"deep")
    kafka.send(SEEDS, b'{"text": "no key"}', None)
    answer = ask.until("/api/seeds", lambda answer: answer["total"] == 4)
    assert len(json.dumps(answer)) < 10_000
    row = next(row for row in answer["rows"] if row["id"] == HOSTILE)
    assert (row["event"], len(row["title"])) == (HOSTILE, 200)
    began = time.monotonic()
    for name in ("deep", "large", HOSTILE):
        assert ask("/api/seed", id=name)["id"] == name
    assert time.monotonic() - began < 30


def test_a_seed_ends_in_the_list_when_its_time_has_come(
    ask: Client, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns.", "expires_at": "2100-01-01T00:00:00Z"}', b"a")
    known(ask, "a", state="live")
    monkeypatch.setattr("time.time", lambda: 4_102_444_800.0)
    assert known(ask, "a")["state"] == "expired"
    monkeypatch.undo()
    assert known(ask, "a")["state"] == "live"


def test_a_profile_is_no_seed_to_set(ask: Client, kafka: Kafka, newsift: Command) -> None:
    add_seeds(kafka)
    assert newsift("events", "learn", "ferry", "--background", "--yes").code == 0
    row = known(ask, "profile|ferry")
    assert row["is_profile"]
    assert known(ask, "fire", state="replaced")["by"] == "profile|ferry"
    with pytest.raises(InputError, match="of a profile only the threshold can be set"):
        ask("/api/seeds/set", id="profile|ferry", mark=row["mark"], event="other")
