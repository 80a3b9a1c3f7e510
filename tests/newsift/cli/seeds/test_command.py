"""`newsift seeds`: what reaches the control topic, and what is said of it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka
from worker.seeds.record import Seed, read_seed

FERRY = b'{"text": "A ferry burns.", "title": "Fire", "event": "ferry"}'
NOBODY = "127.0.0.1:1"


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def article(folder: Path, name: str, content: str) -> Path:
    file = folder / name
    file.write_text(content, "utf-8")
    return file


def test_files_of_every_kind_become_records(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    files = [
        article(tmp_path, "plain.txt", "Only a text.\n"),
        article(tmp_path, "marked.md", "# The title\n\nThe text – é.\n"),
        article(tmp_path, "one.json", '{"text": "T", "url": "https://x.y", "threshold": 0.5}'),
        article(tmp_path, "two.json", '[{"id": "a", "text": "A"}, {"id": "b", "text": "B"}]'),
        article(tmp_path, "more.jsonl", '{"id": "c", "text": "C"}\n\n{"id": "d", "text": "D"}\n'),
    ]
    done = newsift("seeds", "add", "--force", *files, "--event", "both words")
    assert done.code == 0
    assert "newsift: event 'both words' has 7 seeds: one profile of them all" in done.err
    result = {record.key.decode(): json.loads(record.value) for record in kafka.records(SEEDS)}
    event = {"event": "both words"}
    assert result == {
        "plain": {"text": "Only a text."} | event,
        "marked": {"text": "The text – é.", "title": "The title"} | event,
        "one": {"text": "T", "url": "https://x.y", "threshold": 0.5} | event,
        **{name: {"text": name.upper()} | event for name in "abcd"},
    }
    assert all(("schema", b"newsift.seed/1") in record.headers for record in kafka.records(SEEDS))
    marked = read_seed(b"marked", kafka.records(SEEDS)[1].value)
    assert isinstance(marked, Seed)
    assert f"marked  {marked.version}  new, automatic threshold" in done.out
    assert "one  " in done.out
    assert "new, threshold 0.5" in done.out


def test_a_folder_is_all_its_articles(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    folder = tmp_path / "seeds"
    folder.mkdir()
    for name in ("b.md", "a.txt", "notes.pdf"):
        article(folder, name, "Something.")
    assert newsift("seeds", "add", folder, "--force").code == 0
    assert [record.key for record in kafka.records(SEEDS)] == [b"a", b"b"]


def test_what_was_there_before_is_told(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    file = article(tmp_path, "a.md", "# T\n\nOne.")
    message = [newsift("seeds", "add", file, "--force").out.split()[2]]
    message.append(newsift("seeds", "add", file, "--force").out.split()[2])
    article(tmp_path, "a.md", "# T\n\nTwo.")
    message.append(newsift("seeds", "add", file, "--force").out.split()[2])
    newsift("seeds", "remove", "a")
    message.append(newsift("seeds", "add", file, "--force").out.split()[2])
    assert message == ["new,", "unchanged,", "replaced,", "new,"]


def test_options_come_before_the_file(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    file = article(tmp_path, "a.json", '{"text": "T", "title": "old", "threshold": 0.1, "x": 1}')
    options = ["--id", "mine", "--title", "new", "--threshold", "0.7"]
    moment = "2031-01-31T12:00:00+01:00"
    done = newsift("seeds", "add", "--force", file, *options, "--expires-at", moment, "--json")
    assert rows(done.out)[0]["published"] == "new"
    assert "ignored: x;" in done.err
    record = kafka.records(SEEDS)[0]
    assert record.key == b"mine"
    assert json.loads(record.value) == {
        "text": "T", "title": "new", "threshold": 0.7, "expires_at": "2031-01-31T11:00:00.000Z",
    }  # fmt: skip


BAD_FILES = [
    ("a.txt", b"", "text: missing or empty"),
    ("a.txt", b"\xff\xfe", "is not UTF-8 at byte 1"),
    ("a.json", b"{", "is no JSON; mend it"),
    ("a.json", b"[" * 100_000, "is no JSON; mend it"),
    ("a.json", b"[]", "holds no seed"),
    ("a.json", b"[1, 2]", "a.json, seed 1: is no JSON object"),
    ("a.json", b'[{"text": "A"}, {"text": "B"}]', "seed 1: has no 'id'"),
    ("a.json", b'{"text": "A", "threshold": NaN}', "threshold: nan is not above 0"),
    ("a.json", b'{"text": "A", "expires_at": "soon"}', "expires_at: 'soon' is no RFC 3339 time"),
    ("a.json", b'{"text": "\\ud800"}', "text: holds a lone surrogate"),
    ("a.json", b'{"text": "A", "id": ""}', "key: missing"),
    ("a.json", b'{"text": "A", "id": "%s"}' % (b"x" * 257), "key: 257 bytes, 256 are allowed"),
    ("a.jsonl", b'{"id": "a", "text": "A"}\n{"id": "a", "text": "B"}', "are both seed 'a'"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES)
def test_a_bad_file_is_refused_and_nothing_is_published(
    newsift: Command, kafka: Kafka, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    good = article(tmp_path, "good.md", "# Fine\n\nFine.")
    bad = tmp_path / name
    bad.write_bytes(content)
    done = newsift("seeds", "add", "--force", good, bad)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert kafka.records(SEEDS) == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["add"], "give files, or --url"),
        (["add", "a.md", "--url", "https://x.y"], "give files, or --url"),
        (["add", "gone.md"], "gone.md: cannot be read (No such file or directory)"),
        (["add", "a.md", "b.md", "--id", "x"], "--id and --title are for one article"),
        (["add", "a.md", "--threshold", "2"], "threshold: 2 is not above 0"),
        (["add", "a.md", "--expires-at", "soon"], "--expires-at 'soon': is no time"),
        (["add", "empty"], "empty: holds no seed"),
        (["set", "a"], "nothing to change"),
        (["set", "a", "--threshold", "much"], "--threshold 'much': give a score"),
        (["set", "a", "--threshold", "0.5"], "seed 'a': there is none of this id"),
        (["remove", "a"], "seed 'a': there is none of this id"),
        (["show", "a"], "seed 'a': there is none of this id"),
    ],
)
def test_what_is_refused(
    newsift: Command, kafka: Kafka, tmp_path: Path, args: list[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("a.md", "b.md"):
        article(tmp_path, name, "# T\n\nText.")
    done = newsift("seeds", *args)
    assert (done.code, done.out, message in done.err) == (2, "", True), done.err


def test_list_shows_live_expired_and_refused(newsift: Command, kafka: Kafka) -> None:
    kafka.send(SEEDS, FERRY, b"ferry-1")
    kafka.send(SEEDS, b'{"text": "Old.", "expires_at": "2020-01-01T00:00:00Z"}', b"old")
    kafka.send(SEEDS, b'{"text": "Gone."}', b"gone")
    kafka.send(SEEDS, None, b"gone")
    kafka.send(SEEDS, b'{"text": "T", "threshold": 2}', b"odd")
    kafka.send(SEEDS, b"not json \x1b[31m", b"\xff")
    result = {row["id"]: row for row in rows(newsift("seeds", "list", "--json").out)}
    states = {name: row["state"] for name, row in result.items()}
    assert states == {"ferry-1": "live", "old": "expired", "odd": "refused", "\\xff": "refused"}
    assert "threshold: a whole number" in result["odd"]["reason"]
    assert result["ferry-1"] | {"event": "ferry", "title": "Fire"} == result["ferry-1"]
    table = newsift("seeds", "list").out
    assert [line.split()[0] for line in table.splitlines()] == [
        "id",
        "\\xff",
        "ferry-1",
        "odd",
        "old",
    ]
    assert "\x1b" not in table


def test_an_empty_topic_has_no_seeds(newsift: Command, kafka: Kafka) -> None:
    done = newsift("seeds", "list")
    assert (done.code, done.out) == (0, "")
    assert "no seeds; add one" in done.err
    assert newsift("seeds", "list", "--json").out == ""


def test_show_gives_the_whole_text(newsift: Command, kafka: Kafka) -> None:
    kafka.send(SEEDS, FERRY, b"f")
    out = newsift("seeds", "show", "f").out
    assert out.endswith("\n\nA ferry burns.\n")
    assert rows(newsift("seeds", "show", "f", "--json").out)[0]["text"] == "A ferry burns."
    kafka.send(SEEDS, b"{broken", b"f")
    assert "{broken" in newsift("seeds", "show", "f").out


def test_remove_takes_all_or_none(newsift: Command, kafka: Kafka) -> None:
    for key in (b"a", b"b", b"\xff"):
        kafka.send(SEEDS, FERRY, key)
    assert newsift("seeds", "remove", "a", "nope").code == 2
    assert len(kafka.records(SEEDS)) == 3
    done = newsift("seeds", "remove", "a", "\\xff")
    assert (done.code, done.out) == (0, "a  removed\n\\xff  removed\n")
    assert [(r.key, r.value) for r in kafka.records(SEEDS)[3:]] == [(b"a", None), (b"\xff", None)]
    assert newsift("seeds", "remove", "a").code == 2


def test_set_changes_what_is_named_and_nothing_else(newsift: Command, kafka: Kafka) -> None:
    kafka.send(SEEDS, b'{"text": "Old."}', b"a")
    kafka.send(SEEDS, b'{"text": "New.", "threshold": 3, "note": [1], "event": "e"}', b"a")
    assert newsift("seeds", "set", "a", "--threshold", "0.4").code == 0
    assert (
        newsift("seeds", "set", "a", "--event", "", "--expires-at", "2031-01-01T00:00:00Z").code
        == 0
    )
    assert json.loads(kafka.records(SEEDS)[-1].value) == {
        "text": "New.", "threshold": 0.4, "note": [1], "expires_at": "2031-01-01T00:00:00.000Z",
    }  # fmt: skip
    done = newsift("seeds", "set", "a", "--threshold", "auto", "--expires-at", "never", "--json")
    assert rows(done.out)[0] | {"published": "changed", "threshold": None} == rows(done.out)[0]
    assert json.loads(kafka.records(SEEDS)[-1].value) == {"text": "New.", "note": [1]}


def test_set_leaves_alone_what_it_would_break(newsift: Command, kafka: Kafka) -> None:
    kafka.send(SEEDS, FERRY, b"a")
    kafka.send(SEEDS, b"[1]", b"b")
    assert "threshold: 9 is not" in newsift("seeds", "set", "a", "--threshold", "9").err
    assert "add the seed again" in newsift("seeds", "set", "b", "--threshold", "0.9").err
    assert len(kafka.records(SEEDS)) == 2


def test_a_broker_that_is_not_there_is_one_line(newsift: Command, kafka: Kafka) -> None:
    done = newsift("seeds", "list", "--kafka", NOBODY)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"newsift: broker {NOBODY}: nobody listens there")
    assert "newsift broker" in done.err
    assert done.err.count("\n") == 1


def test_a_missing_topic_names_the_command(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_TOPICS__SEEDS", "nowhere")
    done = newsift("seeds", "list")
    assert (done.code, done.out) == (2, "")
    assert f"{kafka.address} has no topic 'nowhere'" in done.err
    assert "newsift topics create" in done.err


def test_the_address_can_come_from_a_file(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    file = article(tmp_path, "own.yaml", f"kafka:\n  bootstrap_servers: {NOBODY}\n")
    assert newsift("seeds", "list", "--config", file).code == 0  # the environment comes first
    done = newsift("seeds", "list", "--config", file, "--kafka", kafka.address)
    assert done.code == 0
    assert newsift("seeds", "list", "--config", tmp_path / "gone.yaml").code == 2


def test_an_article_without_an_end_is_refused(
    newsift: Command, kafka: Kafka, tmp_path: Path
) -> None:
    done = newsift("seeds", "add", "/dev/zero")
    assert (done.code, done.out) == (2, "")
    assert "/dev/zero: is no regular file and no pipe" in done.err
    pipe, large = tmp_path / "pipe.md", tmp_path / "large.md"
    os.mkfifo(pipe)
    filler = subprocess.Popen(["bash", "-c", f"exec cat /dev/zero > '{pipe}'"])
    try:
        done = newsift("seeds", "add", pipe)
    finally:
        filler.kill()
        filler.wait()
    assert (done.code, "pipe.md: is larger than 64 MiB" in done.err) == (2, True)
    with large.open("wb") as file:
        file.truncate(2**40)
    assert "large.md: is larger than 64 MiB" in newsift("seeds", "add", large).err
    assert kafka.records(SEEDS) == []


def test_a_pipe_that_nobody_writes_to_is_refused(
    newsift: Command, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsift.files.read.WRITER_S", 0.1)
    os.mkfifo(tmp_path / "pipe.md")
    done = newsift("seeds", "add", tmp_path / "pipe.md")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("pipe.md: nobody writes to this pipe; give a file\n")
