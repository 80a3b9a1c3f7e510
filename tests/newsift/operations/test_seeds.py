"""Seeds of files and of the control topic: ids, events, states and conflicts."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from encoder.errors import InputError
from newsift.operations.feeds import ArticleIndex
from newsift.operations.keyed_topic import in_order
from newsift.operations.seed_drafts import read_seed_files, require_articles, seed_id, with_event
from newsift.operations.seed_topic import seed_topic
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka
from worker.config import load_config
from worker.errors import ConflictError
from worker.kafka.reading import StoredMessage
from worker.kafka.sending import Headers
from worker.seeds.record import Seed, read_seed
from worker.seeds.state import ControlReducer, control_state

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
    drafts = with_event(read_seed_files([folder / "dam", folder / "fire.md"]), "one")
    assert [(draft.id, event_of(draft.record)) for draft in drafts] == [
        ("one", "one"), ("own", "one"), ("fire", "one"),
    ]  # fmt: skip


def test_a_profile_belongs_to_its_event(folder: Path) -> None:
    with pytest.raises(InputError, match="is the profile of an event; leave --event out"):
        with_event(read_seed_files([folder]), "one")


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


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.json", "a.html"])
def test_an_article_of_too_few_words_is_refused(tmp_path: Path, name: str) -> None:
    text = TEXT.removesuffix("harbour. ")
    content = {"a.json": json.dumps({"text": text}), "a.html": f"<html><p>{text}</p></html>"}
    (tmp_path / name).write_text(content.get(name, text))
    drafts = read_seed_files([tmp_path / name])
    with pytest.raises(InputError, match=r"a\.\w+: has 39 words, and an article has 40 .*--force"):
        require_articles(drafts)


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


def listed(newsift: Command) -> dict[str, dict[str, Any]]:
    done = newsift("seeds", "list", "--json")
    assert done.code == 0, done.err
    return {row["id"]: row for row in map(json.loads, done.out.splitlines())}


def test_a_seed_is_paused_and_resumed(newsift: Command, kafka: Kafka) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns."}', b"ferry")
    assert newsift("seeds", "set", "ferry", "--paused").code == 0
    assert json.loads(kafka.records(SEEDS)[-1].value) == {"text": "A ferry burns.", "paused": True}
    assert listed(newsift)["ferry"]["state"] == "paused"
    assert "1 paused" in newsift("status").out
    assert newsift("seeds", "set", "ferry", "--resumed").code == 0
    assert json.loads(kafka.records(SEEDS)[-1].value) == {"text": "A ferry burns."}
    assert listed(newsift)["ferry"]["state"] == "live"


def test_seeds_beyond_the_limit_are_listed_as_refused(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_LIMITS__SEEDS", "1")
    for name in ("b", "a"):
        kafka.send(SEEDS, b'{"text": "A"}', name.encode())
    result = listed(newsift)
    assert [result[name]["state"] for name in "ab"] == ["live", "refused"]
    assert result["b"]["reason"].startswith("limits.seeds: ")


SHORT = b'{"text": "A ferry burns."}'


def test_the_control_topic_is_read_on(kafka: Kafka) -> None:
    for name in (b"a", b"b"):
        kafka.send(SEEDS, SHORT, name)
    with seed_topic(load_config()) as topic:
        first = topic.state()
        assert (first.offset, first.complete, sorted(first.seeds)) == (2, True, ["a", "b"])
        assert topic.state() is first
        kafka.send(SEEDS, None, b"a")
        assert list(topic.state().seeds) == ["b"]


def test_publishing_refuses_a_conflict(kafka: Kafka) -> None:
    kafka.send(SEEDS, SHORT, b"a")
    with seed_topic(load_config()) as topic:
        state = topic.state()
        kafka.send(SEEDS, b'{"text": "Another ferry."}', b"other")
        topic.publish({b"a": b'{"text": "The ferry burns."}'}, state)  # of another key: no matter
        with pytest.raises(
            ConflictError, match=r"'a': .* at offset 2, .*\(offset 1, [0-9a-f]{12}\)"
        ):
            topic.publish({b"b": SHORT, b"a": None}, state)
        assert sorted(topic.state().seeds) == ["a", "b", "other"][::2]
        topic.publish({b"a": None}, topic.state())
        assert list(topic.state().seeds) == ["other"]


ARTICLE = b'{"text": "A ferry burns.", "url": "https://news.example/a"}'


def seed_of(name: str) -> Seed:
    content = read_seed(name.encode(), ARTICLE)
    assert isinstance(content, Seed)
    return content


def test_a_draft_counts_once_and_a_deleted_seed_no_more() -> None:
    index = ArticleIndex()
    index.update(control_state({b"a": ARTICLE}))
    for name in ("a", "b"):
        index.add(seed_of(name))
    assert (len(index), "b" in index, index.version("b")) == (2, True, seed_of("b").version)
    index = ArticleIndex()
    index.update(control_state({b"a": ARTICLE}))
    assert "news.example/a" in next(iter(index.by_link))
    index.update(control_state({b"bad": b"{"}))
    assert (len(index), "a" in index, index.by_link, index.by_version) == (1, False, {}, {})


@dataclass
class Message(StoredMessage):
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None = b'{"text": "A ferry burns."}'
    topic: str = "seed-articles"
    headers: Headers = ()


def test_several_partitions_are_merged_by_time() -> None:
    first: list[StoredMessage] = [Message(0, 0, 10, b"a"), Message(0, 1, 30, b"c")]
    second: list[StoredMessage] = [Message(1, 0, 20, b"b")]
    (merged,) = in_order([first, second], 2)
    assert [record.key for record in merged] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("late", [5, -1])
def test_a_partition_whose_timestamps_go_back_loses_no_record(late: int) -> None:
    first: list[StoredMessage] = [
        Message(0, 0, 50, b"a"),
        Message(0, 1, late, b"b"),
        Message(0, 2, late, b"a", None),
    ]
    second: list[StoredMessage] = [Message(1, 0, 20, b"c"), Message(1, 1, 60, b"b", None)]
    (merged,) = in_order([first, second], 2)
    for partition in (0, 1):
        offsets = [record.offset for record in merged if record.partition == partition]
        assert offsets == sorted(offsets)
    reducer = ControlReducer()
    reducer.apply(merged)
    assert list(reducer.snapshot().seeds) == ["c"]  # a and b are deleted last
