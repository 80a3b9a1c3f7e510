"""Which files are meant: files, folders with all that is in them, patterns such as data/*.csv."""

import glob
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from encoder.errors import InputError
from worker.files.read import DASH

ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".txt", ".parquet")
PACKED = ("", ".gz", ".zst")
DEEP = re.compile(r"(?:(?<=/)|^)\*\*(?:/|$)")  # in a pattern: this folder and all below
SUFFIXES = tuple(ending + packed for ending in ENDINGS for packed in PACKED)


def found_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The files that are meant, those of a folder or of a pattern by their names, in order."""
    return tuple(file for path in paths for file in _meant(path))


def matching(pattern: str) -> Iterator[str]:
    """The paths that a pattern means; ** goes through no link, which may lead round in a circle."""
    before, *after = DEEP.split(pattern, 1)
    if not after:
        yield from glob.iglob(pattern)  # noqa: PTH207 - any path
        return
    for folder in glob.iglob(before) if before else ["."]:  # noqa: PTH207
        for place, folders, _ in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from matching(f"{glob.escape(place)}/{after[0] or '*'}")


def _meant(path: Path) -> Iterator[Path]:
    if path != DASH and not path.exists() and glob.has_magic(str(path)):
        found = sorted(set(map(Path, matching(str(path)))))
        if not found:
            raise InputError(f"{path}: there is no such file; mend the pattern")
        for each in found:
            yield from _meant(each)
    elif path != DASH and path.is_dir():
        yield from _inside(path)
    else:
        yield path


def _inside(folder: Path) -> list[Path]:
    """The files of a folder and of those in it whose names say what they are; no hidden ones."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            Path(place, name) for name in names
            if name.lower().endswith(SUFFIXES) and not name.startswith(".")
        ]  # fmt: skip
    if not found:
        raise InputError(f"{folder}: holds no file of posts ({', '.join(ENDINGS)}, .gz, .zst)")
    return sorted(found)
