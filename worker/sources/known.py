"""The collectors of this host, by their state files in the usual folder."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from encoder.support.files import read_regular
from worker.posts.times import rfc3339
from worker.sources.state import LARGEST, STORED, Stored, default_state

LOCK = ".lock"
BEYOND = 1e12  # seconds: no time that can be told


def known_collectors() -> Iterator[dict[str, Any]]:
    """Each with whether it runs, and how far it came; those with a --state of their own are not."""
    pattern = default_state("*")
    found = (file for end in ("", LOCK) for file in pattern.parent.glob(pattern.name + end))
    for name in sorted({file.name.removesuffix(LOCK) for file in found}):
        file = pattern.parent / name
        stored = _stored(file)
        yield {
            "source": stored.source if stored else file.stem.removeprefix("collect-"),
            "running": _is_locked(file.with_name(name + LOCK)),
            "last_post_at": _time(stored.at) if stored else None,
            "saved_at": stored.saved if stored else None,
            "gaps": stored.gaps if stored else 0,
            "gap_seconds": stored.gap_seconds if stored else 0.0,
            "state": str(file),
        }


def _stored(file: Path) -> Stored | None:
    try:
        return STORED.decode(read_regular(file, LARGEST))
    except (OSError, RecursionError, msgspec.MsgspecError):
        return None


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(round(1000 * min(max(seconds, -BEYOND), BEYOND)))


def _is_locked(file: Path) -> bool:
    """Whether a process has the lock."""
    try:
        lock = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(lock)
    return False
