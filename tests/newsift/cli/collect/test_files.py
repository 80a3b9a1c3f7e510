"""`newsift collect files` as a user runs it: killed, stopped, run again; an oracle counts."""

import gzip
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.clients import until
from tests.newsift.cli.collect.process import Start, starting
from tests.newsift.collect.folder_side import posts, put
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, Kafka

PATIENCE_S = 60.0


@pytest.fixture
def start() -> Iterator[Start]:
    with starting() as result:
        yield result


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEWSIFT_STATE", str(tmp_path / "state"))
    folder = tmp_path / "posts"
    folder.mkdir()
    return folder


def sent(kafka: Kafka) -> list[str]:
    return [record.key.decode() for record in kafka.records(POSTS)]


def test_once_sends_each_file_once(newsift: Command, kafka: Kafka, place: Path) -> None:
    put(place, "a.jsonl", posts("a", 3), age=90)
    put(place, "b.jsonl.gz", gzip.compress(posts("b", 2)))
    put(place, "c.csv", b"id,text\nc-0,one\n")
    expected = {"a-0", "a-1", "a-2", "b-0", "b-1", "c-0"}
    done = newsift("collect", "files", place, "--once")
    assert done.code == 0, done.err
    assert "6 frames of files sent" in done.err
    assert Counter(sent(kafka)) == Counter(expected)
    again = newsift("collect", "files", place, "--once")
    assert again.code == 0, again.err
    put(place, "d.jsonl", posts("d", 1))
    assert newsift("collect", "files", f"{place}/../posts/", "--once").code == 0
    assert Counter(sent(kafka)) == Counter(expected | {"d-0"})


def test_what_is_not_understood_fails_at_the_end(
    newsift: Command, kafka: Kafka, place: Path
) -> None:
    put(place, "a.csv", b"x,y\n1,2\n", age=90)
    put(place, "b.jsonl", posts("b", 2))
    done = newsift("collect", "files", place, "--once")
    assert done.code == 1
    assert done.err.splitlines()[-1] == "newsift: 1 of 2 files could not be read"
    assert sorted(sent(kafka)) == ["b-0", "b-1"]


def test_too_many_bad_rows_fail_at_the_end(newsift: Command, kafka: Kafka, place: Path) -> None:
    put(place, "a.jsonl", posts("a", 9) + b"{\n")
    done = newsift("collect", "files", place, "--once")
    assert done.code == 1
    assert "1 of 10 rows could not be read" in done.err
    assert len(sent(kafka)) == 9


def test_a_dry_run_prints_and_keeps_nothing(
    start: Start, kafka: Kafka, place: Path, tmp_path: Path
) -> None:
    put(place, "a.jsonl", posts("a", 2))
    process = start("files", place, "--dry-run").process
    out, message = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, message
    assert out.encode() == posts("a", 2)
    assert sent(kafka) == []
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", ["nowhere", "a.jsonl"])
def test_what_is_no_folder_is_refused(
    newsift: Command, kafka: Kafka, place: Path, name: str
) -> None:
    put(place, "a.jsonl", posts("a", 1))
    done = newsift("collect", "files", place / name)
    assert done.code == 2
    assert "there is no such folder" in done.err


def test_a_folder_whose_name_is_no_text_is_refused(newsift: Command, tmp_path: Path) -> None:
    folder = tmp_path / "a\udcff"
    folder.mkdir()
    done = newsift("collect", "files", folder, "--once")
    assert done.code == 2
    assert "its name is not in UTF-8; rename it, or link to it" in done.err


def test_each_folder_has_a_state_of_its_own(
    newsift: Command, kafka: Kafka, place: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        put(place, f"{name}/a.jsonl", posts(name, 1))
        assert newsift("collect", "files", place / name, "--once").code == 0
    assert Counter(sent(kafka)) == Counter(["one-0", "two-0"])
    state = tmp_path / "mine.json"
    for name, code in (("one", 0), ("one", 0), ("two", 2)):
        done = newsift("collect", "files", place / name, "--once", "--state", state)
        assert done.code == code
    assert "give each folder a file of its own" in done.err


@pytest.mark.slow
def test_it_goes_on_with_files_that_come_and_ends_on_sigterm(
    start: Start, kafka: Kafka, place: Path, tmp_path: Path
) -> None:
    put(place, "a.jsonl", posts("a", 2))
    process = start("files", place)
    until(lambda: len(sent(kafka)) == 2, PATIENCE_S)
    put(tmp_path, "b.part", posts("b", 2)).rename(place / "b.jsonl")  # renamed into place
    until(lambda: len(sent(kafka)) == 4, PATIENCE_S)
    slow = place / "slow.jsonl"
    with slow.open("wb") as out:
        for row in range(3):
            out.write(posts("slow", row + 1, row))
            out.flush()
            os.utime(slow, (time.time(),) * 2)
    until(lambda: len(sent(kafka)) == 7, PATIENCE_S)
    code, message = process.leave()
    assert code == 0, message
    assert Counter(sent(kafka)) == Counter(
        ["a-0", "a-1", "b-0", "b-1", "slow-0", "slow-1", "slow-2"]
    )
