"""Seeds that are listed, changed, removed and brought back on the desk, by one or two people."""

import json
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
    return {row["id"]: row for row in ask("/api/seeds", **question)["rows"]}


def listed_seed(ask: Client, name: str, **text: Any) -> Any:
    result = ask.until(
        "/api/seeds",
        lambda answer: any(
            row["id"] == name and text.items() <= row.items() for row in answer["rows"]
        ),
    )
    return next(row for row in result["rows"] if row["id"] == name)


def test_the_page_lists_the_seeds_as_the_command_does(
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


def test_a_seed_is_shown_whole_with_its_heaviest_words(
    ask: Client, kafka: Kafka, enc: Encoder
) -> None:
    add_seeds(kafka)
    listed_seed(ask, "fire")
    row = ask("/api/seed", id="fire")
    title, text = ARTICLES["fire"]
    assert (row["title"], row["text"], row["event"]) == (title, text, "ferry")
    heaviest = enc.articles([(title, text)]).lexical.weights.max()
    assert max(weight for _, weight in row["words"]) == pytest.approx(heaviest, abs=1e-4)
    with pytest.raises(InputError, match="there is none of this id"):
        ask("/api/seed", id="nobody")


def test_a_change_is_that_of_the_command(ask: Client, kafka: Kafka, newsift: Command) -> None:
    for name in (b"mine", b"theirs"):
        kafka.send(SEEDS, b'{"text": "A ferry burns.", "other": [1], "title": "Fire"}', name)
    ends = "2027-01-31T12:00:00Z"
    steps: list[tuple[dict[str, Any], list[str]]] = [
        ({"threshold": 0.25, "event": "f", "expires_at": ends},
         ["--threshold", "0.25", "--event", "f", "--expires-at", ends]),
        ({"threshold": None, "expires_at": None, "paused": True},
         ["--threshold", "auto", "--expires-at", "never", "--paused"]),
    ]  # fmt: skip
    before: dict[str, Any] = {}
    for values, options in steps:
        mark = listed_seed(ask, "mine", **before)["mark"]
        ask("/api/seeds/set", id="mine", mark=mark, **values)
        assert newsift("seeds", "set", "theirs", *options).code == 0
        result = latest(kafka)
        assert result[b"mine"] == result[b"theirs"]
        before = {"threshold": 0.25}
    mark = listed_seed(ask, "mine", state="paused")["mark"]
    ask("/api/seeds/set", id="mine", mark=mark, paused=False)
    assert listed_seed(ask, "mine", state="live")["event"] == "f"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"threshold": 2.0}, "threshold: "),
        ({"event": "é" * 121}, "event: "),
        ({"expires_at": "soon"}, "ends 'soon'"),
    ],
)
def test_an_invalid_change_is_refused(
    ask: Client, kafka: Kafka, changes: dict[str, Any], text: str
) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns."}', b"a")
    row = listed_seed(ask, "a")
    with pytest.raises(InputError, match=text):
        ask("/api/seeds/set", id="a", mark=row["mark"], **changes)
    assert len(kafka.records(SEEDS)) == 1


def test_the_second_of_two_changes_of_a_seed_is_refused(ask: Client, kafka: Kafka) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns."}', b"a")
    seen_by_both = listed_seed(ask, "a")["mark"]
    ask("/api/seeds/set", by="ada", id="a", mark=seen_by_both, event="ferry")
    for act, more in (("set", {"event": "fire"}), ("remove", {})):
        with pytest.raises(InputError, match="'a': has been changed by somebody since you looked"):
            ask(f"/api/seeds/{act}", by="ben", id="a", mark=seen_by_both, **more)
    assert json.loads(latest(kafka)[b"a"] or b"")["event"] == "ferry"


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"a", b'{"text": "A ferry burns.", "n": 1.0}'), (b"\xfe/../", b"\xff no record")],
)
def test_a_removed_seed_can_be_restored(
    ask: Client, kafka: Kafka, key: bytes, value: bytes
) -> None:
    kafka.send(SEEDS, value, key)
    name = key.decode("utf-8", "backslashreplace")
    data = ask("/api/seeds/remove", by="ada", id=name, mark=listed_seed(ask, name)["mark"])
    assert latest(kafka)[key] is None
    answer = ask.until("/api/seeds", lambda answer: not answer["rows"])
    assert answer["removed"] == data == {"number": data["number"], "id": name, "by": "ada"}
    ask("/api/seeds/undo", by="ben", number=data["number"])
    assert latest(kafka)[key] == value
    assert ask("/api/seeds")["removed"] is None
    with pytest.raises(InputError, match="cannot be undone any more"):
        ask("/api/seeds/undo", by="ben", number=data["number"])


def test_a_removal_is_not_undone_over_a_newer_seed(ask: Client, kafka: Kafka) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns."}', b"a")
    answer = ask("/api/seeds/remove", id="a", mark=listed_seed(ask, "a")["mark"])
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
    for name in ("deep", "large", HOSTILE):
        assert ask("/api/seed", id=name)["id"] == name
