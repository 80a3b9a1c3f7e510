"""Leaving while a file is read that brings nothing to send: the thread that reads ends too."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path

from tests.worker.sources.folder.files_side import NOBODY, posts, put, watched
from worker.files.messages import FileMessage


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
