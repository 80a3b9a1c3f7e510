"""A folder of files of posts, and a source that watches it: what it hands on, what is marked."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

from aiohttp import ClientSession

from worker.config import Limits
from worker.files.formats.columns import FileOptions
from worker.files.posts import FileMessages
from worker.sources.folder.find import Settling
from worker.sources.folder.ledger import FileLedger
from worker.sources.folder.source import Folder
from worker.sources.frame import Frame, Mark
from worker.sources.source import EnoughError

NOBODY = cast(ClientSession, None)  # a folder needs no client


def posts(name: str, count: int, begin: int = 0) -> bytes:
    """So many posts as JSON lines, with ids that name their file."""
    rows = ({"id": f"{name}-{n}", "text": f"row {n} of {name}"} for n in range(begin, count))
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def put(folder: Path, name: str, content: bytes, age: float = 60.0) -> Path:
    """A file that was written so many seconds ago."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    os.utime(file, (time.time() - age,) * 2)
    return file


def watched(place: Path, state: Path, once: bool = True, settle: float = 5.0) -> Folder:
    """A source for this folder, with its ledger beside a state."""

    def read(path: Path) -> FileMessages:
        return FileMessages(path, FileOptions(), Limits())

    ledger = FileLedger(state / "ledger")
    state.mkdir(exist_ok=True)
    return Folder(str(place), read, ledger, once, Settling(settle), look_every=0.01)


async def frames_of(source: Folder, mark: Mark | None) -> AsyncIterator[Frame]:
    """What comes, frame by frame, until there is no more."""
    arrivals = source.arrivals(NOBODY, mark)
    try:
        async for frames in arrivals:
            for frame in cast("list[Frame]", frames):
                yield frame
    except EnoughError:
        return
    finally:
        await arrivals.aclose()


def all_of(source: Folder, mark: Mark | None = None) -> tuple[list[str], Mark | None]:
    """The keys of all that comes, and the mark once it is acknowledged."""

    async def everything() -> list[Frame]:
        return [frame async for frame in frames_of(source, mark)]

    frames = asyncio.run(everything())
    if frames:
        mark = mark_of(source, frames[-1])
    return [(frame.key or b"").decode() for frame in frames if frame.value], mark


def mark_of(source: Folder, frame: Frame) -> Mark:
    """What is kept once this frame is acknowledged."""
    assert frame.cursor is not None
    return Mark(frame.cursor, source.place)
