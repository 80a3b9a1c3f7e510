import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from encoder.errors import InputError
from newsift.operations.keyed_topic import merge_by_time
from newsift.operations.messages import capture
from newsift.operations.seed_drafts import (
    change_seeds,
    read_seed_files,
    report_copies,
    seed_id,
    set_event,
)
from newsift.operations.seed_topic import seed_topic
from tests.broker.clients import admin, create
from tests.worker.command_topics import SEEDS, Kafka
from tests.worker.event_profiles import profile_value
from tests.worker.small_encoder import ARTICLES, Mail, value
from worker.config.load import load_config
from worker.errors import ConflictError
from worker.kafka.reading import connected
from worker.seeds.state import ControlReducer, parse_control_state

pytestmark = pytest.mark.usefixtures("read_in_process")

TEXT = "Smoke rose above the harbour. " * 8  # 40 words


def event_of(record: dict[str, Any]) -> Any:
    return record.get("event")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "articles"
    for file, content in {
        "fire.md": f"# Fire\n\n{TEXT}",
        "saved.html": f"<html><body><p>{TEXT}</p></body></html>",
        "saved_files/frame.html": "<html></html>",
        "dam/one.txt": TEXT,
        "dam/own.json": json.dumps({"text": TEXT, "event": "its own"}),
        "dam/more.jsonl": json.dumps({"id": "a", "text": TEXT})
        + "\n" + json.dumps({"key": "profile|x", "value": json.dumps({"event": "x"})}),
        "boston/one.txt": TEXT,
        ".hidden/one.txt": TEXT,
    }.items():  # fmt: skip
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(content)
    return folder


def test_a_subfolder_is_an_event_of_its_name(folder: Path) -> None:
    drafts = read_seed_files([folder])
    assert {draft.id: event_of(draft.record) for draft in drafts} == {
        "fire": None, "saved": None, "boston/one": "boston", "dam/one": "dam",
        "dam/own": "its own", "a": "dam", "profile|x": "x",
    }  # fmt: skip


def test_an_event_that_is_named_counts_more(folder: Path) -> None:
    (folder / "dam/more.jsonl").unlink()
    drafts = set_event(read_seed_files([folder / "dam", folder / "fire.md"]), "one")
    assert [(draft.id, event_of(draft.record)) for draft in drafts] == [
        ("one", "one"), ("own", "one"), ("fire", "one"),
    ]  # fmt: skip


def test_a_profile_belongs_to_its_event(folder: Path) -> None:
    with pytest.raises(InputError, match="is the profile of an event; leave --event out"):
        set_event(read_seed_files([folder]), "one")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("dam/deep/one.txt", "articles/dam/deep: is deeper than the folder of an event"),
        ("empty/notes.pdf", "articles/empty: holds no seed (.txt,"),
    ],
)
def test_folders_that_are_no_events_are_refused(folder: Path, file: str, message: str) -> None:
    (folder / file).parent.mkdir()
    (folder / file).write_text(TEXT)
    with pytest.raises(InputError) as refused:
        read_seed_files([folder])
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("title", "url", "expected"),
    [
        ("Fire on the Ferry: 9 missing!", "https://x.y/z", "fire-on-the-ferry-9-missing"),
        ("", "https://news.example/2026/ferry-fire.html", "news-example-2026-ferry-fire-html"),
        ("Ж" * 100, "https://x.y", "ж" * 59 + "…"),
        ("…", "", "article"),
    ],
)
def test_an_id_for_people(title: str, url: str, expected: str) -> None:
    assert seed_id(title, url) == expected


SHORT = b'{"text": "A ferry burns."}'


def test_an_article_that_has_several_seeds_is_reported() -> None:
    texts = {"a": "fire", "b": "fire", "c": "flood", "d": "flood", "e": "storm"}
    state = parse_control_state({name.encode(): value(text=t) for name, t in texts.items()})
    with capture() as messages:
        report_copies(state, [state.seeds["b"], state.seeds["e"]])
    assert ["'a', 'b'" in message for message in messages] == [True]
    with capture() as messages:
        report_copies(state.with_contents([replace(state.seeds["b"], title="t")]), [])
        report_copies(state, [state.seeds["e"]])
    assert not messages


def test_a_topic_that_was_created_again_with_more_records_is_read_whole(kafka: Kafka) -> None:
    kafka.send(SEEDS, SHORT, b"old")
    with seed_topic(load_config()) as topic:
        assert topic.state().records.keys() == {b"old"}
    with admin(str(kafka.address)) as client:
        client.delete_topics([SEEDS])
    create(str(kafka.address), SEEDS)
    for key in (b"a", b"b", b"c"):
        kafka.send(SEEDS, SHORT, key)
    with connected(load_config()) as topic.cluster:  # as each round of a followed feed
        assert topic.state().records.keys() == {b"a", b"b", b"c"}


def test_after_a_long_pause_deleted_seeds_are_gone(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.send(SEEDS, SHORT, b"deleted")
    kafka.send(SEEDS, SHORT, b"stays")
    with seed_topic(load_config()) as topic:
        assert topic.state().records.keys() == {b"deleted", b"stays"}
        monkeypatch.setattr(topic.cluster, "beginnings", lambda _topic: {0: 1})
        assert topic.state().records.keys() == {b"deleted", b"stays"}
        monkeypatch.setattr("newsift.operations.keyed_topic.MAX_READ_PAUSE_S", -1.0)
        assert topic.state().records.keys() == {b"stays"}


def test_publishing_refuses_a_conflict(kafka: Kafka) -> None:
    kafka.send(SEEDS, SHORT, b"a")
    with seed_topic(load_config()) as topic:
        state = topic.state()
        kafka.send(SEEDS, b'{"text": "Another ferry."}', b"other")
        topic.publish({b"a": b'{"text": "The ferry burns."}'}, state)  # of another key: no matter
        with pytest.raises(
            ConflictError, match=r"'a': .* at offset 2, .*\(offset 1, digest [0-9a-f]{12}\)"
        ):
            topic.publish({b"b": SHORT, b"a": None}, state)
        assert sorted(topic.state().seeds) == ["a", "b", "other"][::2]
        topic.publish({b"a": None}, topic.state())
        assert list(topic.state().seeds) == ["other"]


def message(partition: int, offset: int, at: int, key: bytes, value: bytes | None = SHORT) -> Any:
    return Mail(value, "seed-articles", partition, offset, at, key)


@pytest.mark.parametrize("late", [55, 5, -1])
def test_partitions_are_merged_by_time_and_lose_no_record(late: int) -> None:
    """Timestamps may go back."""
    first = [
        message(0, 0, 50, b"a"), message(0, 1, late, b"b"), message(0, 2, late, b"a", None),
    ]  # fmt: skip
    second = [message(1, 0, 20, b"c"), message(1, 1, 60, b"b", None)]
    (merged,) = merge_by_time([first, second], 2)
    assert b"".join(record.key or b"" for record in merged) == b"cabab"
    reducer = ControlReducer()
    reducer.apply(merged)
    assert list(reducer.snapshot().seeds) == ["c"]  # a and b are deleted last


PROMISE = {"precision": 0.8, "confidence": 0.9, "version": 1}


RIVER = {"text": ARTICLES["flood"], "event": "river"}


def add_river(kafka: Kafka, **profile: Any) -> None:
    """A seed and the profile that its event has learned from it."""
    kafka.send(SEEDS, value(**RIVER), b"a")
    made = profile_value("river", {"a": ARTICLES["flood"]}, **profile)
    kafka.send(SEEDS, made, b"profile|river")


@pytest.mark.parametrize("promise", [PROMISE, None])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"text": "The river rises again."}, "has changed since"),
        ({"event": "other"}, "belongs to another event now"),
        ({"paused": True}, "is paused"),
        ({}, "does not exist any more"),
    ],
)
def test_a_change_that_ends_a_profile_is_reported(
    kafka: Kafka, changes: dict[str, Any], reason: str, promise: dict[str, Any] | None
) -> None:
    add_river(kafka, threshold=0.4, promise=promise)
    new = value(**RIVER | changes) if changes else None
    with seed_topic(load_config()) as topic:
        with capture() as lines:
            topic.publish({b"a": value(**RIVER, url="https://x.y"), b"b": SHORT}, topic.state())
        assert lines == []
        with capture() as lines:
            topic.publish({b"a": new}, topic.state())
        (line,) = lines
        assert f"seeds: 'a' {reason}" in line
        assert ("promise" in line) is bool(promise)
        with capture() as lines:
            topic.publish({b"a": None}, topic.state())
        assert lines == []


def test_a_threshold_of_a_profile_gives_its_promise_up_and_says_so(kafka: Kafka) -> None:
    add_river(kafka, threshold=0.4, promise=PROMISE)
    with seed_topic(load_config()) as topic:
        for is_promised in (True, False):
            with capture() as lines:
                change_seeds(
                    topic, topic.state(), ["profile|river"], {"threshold": 0.3}, load_config()
                )
            assert [line for line in lines if "promise" in line and "'river'" in line] == lines
            assert len(lines) == is_promised


def test_a_threshold_of_a_seed_that_a_profile_replaces_has_no_effect_and_says_so(
    kafka: Kafka,
) -> None:
    add_river(kafka)
    kafka.send(SEEDS, SHORT, b"b")
    with seed_topic(load_config()) as topic:
        with capture() as lines:
            change_seeds(topic, topic.state(), ["a", "b"], {"threshold": 0.3}, load_config())
        assert len(lines) == 1
        assert "profile|river" in lines[0]
        with capture() as lines:
            change_seeds(topic, topic.state(), ["a"], {"url": "https://x.y"}, load_config())
        assert lines == []
