"""The files of a folder, or of a pattern, as they stand now: looked for, not told by the system."""

import glob
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from worker.files.find import matching

SETTLED_S = 5.0  # without a change, and nobody is taken to write a file any more


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as it was found."""

    path: str
    device: int
    inode: int
    size: int
    changed: int  # nanoseconds since 1970

    @property
    def name(self) -> str:
        """The path as text, whatever bytes it is of."""
        return self.path.encode("utf-8", "backslashreplace").decode()


def found_in(place: str, endings: tuple[str, ...]) -> list[FoundFile] | None:
    """The files that are meant, each by one name, the oldest first; None without such a folder."""
    if Path(place).is_dir():
        paths = _inside(place, endings)
    elif glob.has_magic(place):
        paths = matching(place)
    else:
        return None
    found = [file for path in paths if (file := _file(path)) is not None]
    found.sort(key=lambda file: (file.changed, file.path))
    by_inode: dict[tuple[int, int], FoundFile] = {}
    for file in found:
        by_inode.setdefault((file.device, file.inode), file)
    return list(by_inode.values())


def _inside(place: str, endings: tuple[str, ...]) -> Iterator[str]:
    """What a folder and those in it hold whose names say that they hold posts; nothing hidden."""
    for folder, folders, names in os.walk(place):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.lower().endswith(endings) and not name.startswith("."):
                yield os.path.join(folder, name)  # noqa: PTH118 - a hundred thousand of them


def _file(path: str) -> FoundFile | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a hundred thousand of them
    except OSError:
        return None  # it is gone since, or cannot be seen
    if not stat.S_ISREG(found.st_mode):
        return None
    return FoundFile(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class Settling:
    """Tells which files are whole: those that nobody has written to for a while."""

    def __init__(self, seconds: float = SETTLED_S) -> None:
        self._seconds = seconds
        self._seen: dict[str, tuple[FoundFile, float]] = {}

    def whole(
        self, files: list[FoundFile], now: float, clock: float
    ) -> tuple[list[FoundFile], bool]:
        """Those that are whole, by the time of day and a clock; and whether others are awaited."""
        before, self._seen = self._seen, {}
        done = []
        for file in files:
            was, since = before.get(file.path, (file, clock))
            since = since if was == file else clock
            old = now - file.changed / 1e9 >= self._seconds
            if old or clock - since >= self._seconds:
                done.append(file)
            else:
                self._seen[file.path] = file, since
        return done, bool(self._seen)
