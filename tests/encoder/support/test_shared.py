"""Arrays that processes share: mapped when they are whole and ours alone, else made again."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from encoder.support import shared as sharing
from encoder.support.shared import DIGEST_BYTES, KEPT, LEAST, shared

SHAPE = (3, LEAST // 4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sharing, "FOLDER", tmp_path)
    return tmp_path


def numbers() -> NDArray[np.float32]:
    return np.arange(SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE)


def ask(name: str = "a", shape: tuple[int, ...] = SHAPE) -> bool:
    """Whether the array had to be made; it is right and nobody can write to it."""
    made: list[bool] = []

    def make() -> NDArray[np.float32]:
        made.append(True)
        return numbers().ravel()[: np.prod(shape)].reshape(shape)

    found = shared(name, np.float32, shape, make)
    assert (found == numbers().ravel()[: found.size].reshape(shape)).all()
    assert found.dtype == np.float32
    assert not found.flags.writeable
    return bool(made)


def test_it_is_made_once_and_then_mapped(folder: Path) -> None:
    assert ask()
    assert not ask()
    file = folder / "a.array"
    assert file.stat().st_mode & 0o777 == 0o600
    held = shared("a", np.float32, SHAPE, numbers)
    assert str(file) in Path("/proc/self/maps").read_text()
    file.unlink()
    assert (held == numbers()).all(), "who maps it keeps it"


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def exchange_digest(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-DIGEST_BYTES] + bytes(DIGEST_BYTES))


def let_others_write(file: Path) -> None:
    file.chmod(0o666)


def give_away(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(file, 12345, -1)


def link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to(file.with_name("elsewhere"))


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


@pytest.mark.parametrize(
    "spoil",
    [flip, truncate, empty, exchange_digest, let_others_write, give_away, link, pipe, Path.unlink],
)
def test_what_is_not_whole_or_not_ours_is_made_again(
    folder: Path, spoil: Callable[[Path], None]
) -> None:
    assert ask()
    spoil(folder / "a.array")
    assert ask()
    assert not ask()


def test_another_shape_is_another_array(folder: Path) -> None:
    assert ask()
    assert ask(shape=(2, LEAST // 4))


@pytest.mark.parametrize("place", [None, Path("/dev/null/nowhere")])
def test_where_nothing_can_be_kept_it_is_in_memory(
    monkeypatch: pytest.MonkeyPatch, place: Path | None
) -> None:
    monkeypatch.setattr(sharing, "FOLDER", place)
    assert ask()
    assert ask()


def test_a_disk_that_is_full_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: memoryview) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sharing, "_digest", refuse)
    assert ask()
    assert list(folder.iterdir()) == []


def test_a_small_array_is_not_worth_a_file(folder: Path) -> None:
    assert ask(shape=(7,))
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("folder")
def test_what_fails_to_be_made_says_so() -> None:
    def fail() -> NDArray[np.float32]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shared("a", np.float32, SHAPE, fail)


def test_old_arrays_go_and_so_does_what_was_begun_and_left(folder: Path) -> None:
    for age in range(KEPT + 3):
        (folder / f"old{age}.array").write_text("x")
        os.utime(folder / f"old{age}.array", (time.time() - age - 9,) * 2)
    for name, age in (("begun", 9), ("left", 2 * sharing.ABANDONED_S)):
        (folder / f".newsift-{name}").write_text("x")
        os.utime(folder / f".newsift-{name}", (time.time() - age,) * 2)
    assert ask()
    kept = {path.name for path in folder.iterdir()}
    assert kept == {"a.array", ".newsift-begun", *(f"old{n}.array" for n in range(KEPT - 1))}


def test_one_in_use_is_the_newest(folder: Path) -> None:
    assert ask()
    os.utime(folder / "a.array", (1, 1))
    assert not ask()
    assert time.time() - (folder / "a.array").stat().st_mtime < 60
