"""Leaving while a file is read that brings nothing to send: the thread that reads ends too."""

import asyncio
import gzip
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

import newsift.collect.folder as folder_module
from encoder.errors import InputError
from newsift.collect.folder import FileVersion, scan_folder
from newsift.collect.source import SourceMark
from newsift.files.messages import FileMessage
from tests.newsift.collect.folder_side import (
    NOBODY,
    all_of,
    frames_of,
    mark_of,
    posts,
    put,
    watched,
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "posts"
    folder.mkdir()
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


async def test_leaving_ends_the_thread_that_reads(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", posts("a", 1))
    reading = asyncio.Event()

    loop = asyncio.get_running_loop()

    def read(_path: Path) -> Iterator[Sequence[FileMessage]]:
        loop.call_soon_threadsafe(reading.set)
        yield from repeat(())

    source = watched(tmp_path, tmp_path / "state")
    source.read = read
    arrivals = source.arrivals(NOBODY, None)
    assert await anext(arrivals) == ()
    task = asyncio.ensure_future(anext(arrivals))
    async with asyncio.timeout(60):
        await reading.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await loop.shutdown_default_executor()  # it waits for the thread


def crash_and_go_on(place: Path, state: Path, dice: random.Random) -> tuple[list[str], int]:
    """All keys that were handed on before each of many crashes, and how many crashes there were."""
    sent: list[str] = []
    mark: SourceMark | None = None
    crashes = 0

    async def until_it_crashes(after: int) -> bool:
        nonlocal mark
        source, since = watched(place, state), mark
        count = 0
        async for frame in frames_of(source, since):
            if frame.value:
                sent.append((frame.key or b"").decode())
            count += 1
            if dice.random() < 0.7:  # the others are sent and not yet acknowledged
                mark = mark_of(source, frame)
            if count >= after:
                return True
        return False

    while asyncio.run(until_it_crashes(dice.randint(1, 60))):
        crashes += 1
    return sent, crashes


@pytest.mark.parametrize("seed", range(8))
def test_whatever_crashes_nothing_is_missing_and_little_comes_twice(
    place: Path, state: Path, seed: int
) -> None:
    dice = random.Random(seed)
    sizes = [dice.choice([0, 1, 5, 40, 150]) for _ in range(12)]
    for number, size in enumerate(sizes):
        put(place, f"{number}.jsonl", posts(str(number), size), age=100 - number)
    sent, crashes = crash_and_go_on(place, state, dice)
    expected = [f"{name}-{row}" for name, size in enumerate(sizes) for row in range(size)]
    assert crashes > 2
    assert set(sent) == set(expected)
    assert len(sent) - len(expected) < 20 * crashes
    assert list(dict.fromkeys(sent)) == expected


@pytest.mark.parametrize("change", ["remove", "rewrite"])
def test_a_file_that_was_under_way_is_not_there_any_more(
    place: Path, state: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = put(place, "a.jsonl", posts("a", 10))
    put(place, "b.jsonl", posts("b", 1), age=1000)
    _, mark = all_of(watched(place, state))
    assert mark is not None
    number = int(str(mark.cursor).partition(":")[0])
    if change == "remove":
        file.unlink()
    else:
        put(place, "a.jsonl", posts("A", 2), age=40)
    keys, _ = all_of(watched(place, state), SourceMark(f"{number}:4", mark.place))
    assert keys == ([] if change == "remove" else ["A-0", "A-1"])
    assert "a.jsonl: is gone or changed; 4 rows were sent" in caplog.text


def test_every_file_once_the_oldest_first(place: Path, state: Path) -> None:
    put(place, "b.jsonl", posts("b", 3), age=90)
    put(place, "deep/er/a.jsonl.gz", gzip.compress(posts("a", 2)), age=30)
    put(place, "c.csv", b"id,text\nc-0,one\nc-1,two\n", age=60)
    put(place, "d.json", b"[" + b",".join(posts("d", 2).splitlines()) + b"]", age=10)
    source = watched(place, state)
    keys, mark = all_of(source)
    assert keys == ["b-0", "b-1", "b-2", "c-0", "c-1", "a-0", "a-1", "d-0", "d-1"]
    assert source.counts["files"] == 4
    assert all_of(watched(place, state), mark) == ([], mark)
    put(place, "e.jsonl", posts("e", 1))
    assert all_of(watched(place, state), mark)[0] == ["e-0"]


def test_ignores_hidden_and_other_files(place: Path, state: Path) -> None:
    for name in (".a.jsonl", ".hidden/a.jsonl", "a.jsonl.part", "a.jsonl.tmp", "notes.md"):
        put(place, name, posts("x", 1))
    (place / "folder.csv").mkdir()
    os.mkfifo(place / "pipe.jsonl")
    (place / "loop").symlink_to(place)
    (place / "nowhere.csv").symlink_to(place / "gone.csv")
    assert all_of(watched(place, state)) == ([], None)


def test_reads_a_file_of_many_names_once(place: Path, state: Path) -> None:
    odd = put(place, "new\nline \udcff.jsonl", posts("a", 2))
    (place / "again.jsonl").symlink_to(odd)
    (place / "linked.jsonl").hardlink_to(odd)
    (place / "itself.jsonl").symlink_to(place / "itself.jsonl")
    os.mkfifo(place / "pipe.jsonl")
    keys, mark = all_of(watched(place, state))
    assert keys == ["a-0", "a-1"]
    assert all_of(watched(place, state), mark) == ([], mark)


class Clock:
    """A clock in the place of the module `time`, which goes on at each look."""

    now = 1_800_000_000.0

    def time(self) -> float:
        return self.now

    monotonic = time


def test_a_file_that_is_being_written_is_waited_for(
    place: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grows at each of five looks; nothing of it is taken before it is whole."""
    clock, looks = Clock(), iter(range(100))
    file = put(place, "a.jsonl", b"", age=0)

    def look(*where: Any) -> list[FileVersion] | None:
        clock.now += 3.0
        if (row := next(looks)) < 5:
            with file.open("ab") as out:
                out.write(posts("a", row + 1, row))
            os.utime(file, (clock.now,) * 2)
        return scan_folder(*where)

    monkeypatch.setattr(folder_module, "time", clock)
    monkeypatch.setattr(folder_module, "SHARE_LOOKING", 1e9)  # by this clock a look takes long
    monkeypatch.setattr(folder_module, "scan_folder", look)
    assert all_of(watched(place, state))[0] == [f"a-{n}" for n in range(5)]
    assert next(looks) == 7  # two more, until it had been the same for five seconds


def test_an_unreadable_file_is_reported_once_and_holds_up_no_other(
    place: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(place, "a.csv", b"x,y\n1,2\n", age=90)
    put(place, "b.jsonl.gz", gzip.compress(posts("b", 3000))[:-200], age=80)
    unread = put(place, "c.jsonl", b"\x00\x01\x02", age=70)
    put(place, "d.jsonl", posts("d", 2), age=60)
    source = watched(place, state)
    keys, mark = all_of(source)
    assert keys[-2:] == ["d-0", "d-1"]
    assert source.counts["not understood"] == 3
    for name in ("a.csv", "b.jsonl.gz", "c.jsonl"):
        assert caplog.text.count(f"{name}") == 1
    assert sorted(file.name for file in place.iterdir()) == [
        "a.csv", "b.jsonl.gz", "c.jsonl", "d.jsonl",
    ]  # fmt: skip
    assert all_of(watched(place, state), mark) == ([], mark)
    put(place, "c.jsonl", posts("c", 1), age=30)
    assert unread.exists()
    assert all_of(watched(place, state), mark)[0] == ["c-0"]  # it was mended


def test_counts_and_skips_an_unreadable_row(
    place: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = posts("a", 2) + b'{"id": "x"}\n' * 5 + b"{\n" + posts("a", 4, 2)
    put(place, "a.jsonl", rows)
    source = watched(place, state)
    assert all_of(source)[0] == [f"a-{n}" for n in range(4)]
    assert (source.counts["rows"], source.counts["bad rows"]) == (10, 6)
    assert caplog.text.count("not sent") == 2  # one for each reason


def test_recognises_a_folder_that_was_copied_back(place: Path, state: Path, tmp_path: Path) -> None:
    """As one that is mounted anew: other inodes, the same names, sizes, times and contents."""
    put(place, "a.jsonl", posts("a", 2))
    put(place, "b.jsonl", posts("b", 2))
    _, mark = all_of(watched(place, state))
    shutil.copytree(place, tmp_path / "copy")
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "copy", place)
    assert all_of(watched(place, state), mark) == ([], mark)


async def test_waits_for_a_missing_folder_and_reports_it_once(
    place: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = watched(place, state, once=False)
    put(place, "a.jsonl", posts("a", 1))

    result: list[str] = []
    arrivals = source.arrivals(NOBODY, None)
    idle = 0
    async for frames in arrivals:
        assert isinstance(frames, list | tuple)
        result += [(frame.key or b"").decode() for frame in frames if frame.value]
        idle += 1
        if result == ["a-0"] and place.exists():
            shutil.rmtree(place)
            asyncio.get_running_loop().call_later(0.2, put, place, "b.jsonl", posts("b", 1))
        if result == ["a-0", "b-0"]:
            break
    await arrivals.aclose()
    assert result == ["a-0", "b-0"]
    assert caplog.text.count("is not there; it is waited for") == 1


@pytest.mark.parametrize(
    ("cursor", "of", "message"),
    [("x", "", "is of no folder"), (7, "", "is of no folder"), ("1:2", "/a", "of the folder '/a'")],
)
def test_refuses_another_state(
    place: Path, state: Path, cursor: str | int, of: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        all_of(watched(place, state), SourceMark(cursor, of or str(place)))
