"""A folder of files of posts, and a source that watches it: what it hands on, the positions."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

from aiohttp import ClientSession

from newsift.collect.file_ledger import FileLedger
from newsift.collect.folder import Folder, SettleTimer
from newsift.collect.source import SourceEndedError, SourceFrame, SourcePosition
from newsift.files.posts import FileMessages
from newsift.files.tables import FileOptions
from worker.config.limits import Limits

NOBODY = cast(ClientSession, None)  # a folder needs no client


def posts(name: str, count: int, begin: int = 0) -> bytes:
    """So many posts as JSON lines, with ids that name their file."""
    rows = ({"id": f"{name}-{n}", "text": f"row {n} of {name}"} for n in range(begin, count))
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def put(folder: Path, name: str, content: bytes, age: float = 60.0) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    os.utime(file, (time.time() - age,) * 2)
    return file


def watched(place: Path, state: Path) -> Folder:
    def read(path: Path) -> FileMessages:
        return FileMessages(path, FileOptions(), Limits())

    ledger = FileLedger(state / "ledger")
    state.mkdir(exist_ok=True)
    return Folder(str(place), read, ledger, True, SettleTimer(5.0), scan_interval_s=0.01)


async def frames_of(source: Folder, position: SourcePosition | None) -> AsyncIterator[SourceFrame]:
    arrivals = source.arrivals(NOBODY, position)
    try:
        async for frames in arrivals:
            for frame in cast("list[SourceFrame]", frames):
                yield frame
    except SourceEndedError:
        return
    finally:
        await arrivals.aclose()


def all_of(
    source: Folder, position: SourcePosition | None = None
) -> tuple[list[str], SourcePosition | None]:
    async def everything() -> list[SourceFrame]:
        return [frame async for frame in frames_of(source, position)]

    frames = asyncio.run(everything())
    if frames:
        position = position_of(source, frames[-1])
    return [(frame.key or b"").decode() for frame in frames if frame.value], position


def position_of(source: Folder, frame: SourceFrame) -> SourcePosition:
    assert frame.cursor is not None
    return SourcePosition(frame.cursor, source.place)
