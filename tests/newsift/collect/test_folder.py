"""Leaving while a file is read that brings nothing to send: the thread that reads ends too."""

import asyncio
import gzip
import os
import random
import shutil
from collections import Counter
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


def test_a_file_without_end_holds_nobody_up(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", posts("a", 1))
    reading = asyncio.Event()

    async def test() -> None:
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

    asyncio.run(test())


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


def test_files_that_come_and_go_between_crashes(place: Path, state: Path) -> None:
    put(place, "a.jsonl", posts("a", 10))

    async def three() -> SourceMark:
        source = watched(place, state)
        async for frame in frames_of(source, None):
            if frame.key == b"a-2":
                return mark_of(source, frame)
        raise AssertionError

    mark = asyncio.run(three())
    put(place, "older.jsonl", posts("older", 1), age=500)
    source = watched(place, state)
    keys, _ = all_of(source, mark)
    assert keys == [f"a-{n}" for n in range(3, 10)] + ["older-0"]  # the one under way first


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


def test_the_bytes_of_a_platform_s_post_stay_as_they_are(place: Path, state: Path) -> None:
    row = b'{"id":"1",   "text": "a  b", "more": [1,2]}'
    put(place, "a.jsonl", row + b"\n")

    async def first() -> bytes:
        async for frame in frames_of(watched(place, state), None):
            return frame.value
        return b""

    assert asyncio.run(first()) == row


def test_what_is_hidden_or_holds_no_posts_by_its_name_is_left(place: Path, state: Path) -> None:
    for name in (".a.jsonl", ".hidden/a.jsonl", "a.jsonl.part", "a.jsonl.tmp", "notes.md"):
        put(place, name, posts("x", 1))
    (place / "folder.csv").mkdir()
    os.mkfifo(place / "pipe.jsonl")
    (place / "loop").symlink_to(place)
    (place / "nowhere.csv").symlink_to(place / "gone.csv")
    assert all_of(watched(place, state)) == ([], None)


def test_a_pattern(place: Path, state: Path) -> None:
    for name in ("a.jsonl", "b.log", "deep/c.log"):
        put(place, name, posts(name[-5], 1))
    assert all_of(watched(place / "**" / "*.log", state))[0] == ["b-0", "c-0"]


def test_a_file_of_many_names_comes_once_and_what_is_none_not_at_all(
    place: Path, state: Path
) -> None:
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


def test_what_is_not_understood_is_told_once_and_the_rest_goes_on(
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


def test_a_row_that_nobody_can_read_is_counted_and_not_sent(
    place: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = posts("a", 2) + b'{"id": "x"}\n' * 5 + b"{\n" + posts("a", 4, 2)
    put(place, "a.jsonl", rows)
    source = watched(place, state)
    assert all_of(source)[0] == [f"a-{n}" for n in range(4)]
    assert (source.counts["rows"], source.counts["bad rows"]) == (10, 6)
    assert caplog.text.count("not sent") == 2  # one for each reason


def test_a_file_that_was_written_to_after_it_was_sent_is_told(
    place: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = put(place, "a.jsonl", posts("a", 2))
    _, mark = all_of(watched(place, state))
    with file.open("ab") as out:
        out.write(posts("a", 3, 2))
    os.utime(file, (1.0e9, 1.0e9))
    assert all_of(watched(place, state), mark) == ([], mark)
    assert "a.jsonl: was written to after it was sent" in caplog.text


def test_a_folder_that_was_copied_back_is_known_again(
    place: Path, state: Path, tmp_path: Path
) -> None:
    """As one that is mounted anew: other inodes, the same names, sizes, times and contents."""
    put(place, "a.jsonl", posts("a", 2))
    put(place, "b.jsonl", posts("b", 2))
    _, mark = all_of(watched(place, state))
    shutil.copytree(place, tmp_path / "copy")
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "copy", place)
    assert all_of(watched(place, state), mark) == ([], mark)


def test_a_folder_that_is_gone_is_waited_for_and_told_once(
    place: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = watched(place, state, once=False)
    put(place, "a.jsonl", posts("a", 1))

    async def keys() -> list[str]:
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
        return result

    assert asyncio.run(keys()) == ["a-0", "b-0"]
    assert caplog.text.count("is not there; it is waited for") == 1


def test_more_files_than_are_begun_at_a_time(
    place: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "FILES", 7)
    for number in range(50):
        put(place, f"{number}.jsonl", posts(str(number), 2), age=100 - number)
    keys, _ = all_of(watched(place, state))
    assert Counter(keys) == Counter(f"{n}-{row}" for n in range(50) for row in range(2))


def test_the_state_of_another_folder_is_refused(place: Path, state: Path) -> None:
    with pytest.raises(InputError, match="is of the folder '/elsewhere'"):
        all_of(watched(place, state), SourceMark("1:2", "/elsewhere"))


@pytest.mark.parametrize("cursor", ["x", 7, "1:x", "1:2:3"])
def test_a_cursor_that_is_none_of_a_folder(place: Path, state: Path, cursor: str | int) -> None:
    with pytest.raises(InputError, match="is of no folder"):
        all_of(watched(place, state), SourceMark(cursor, str(place)))
