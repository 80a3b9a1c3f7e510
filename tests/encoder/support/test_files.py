import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from encoder.errors import InputError
from encoder.support.files import private_folder, refuse_public_content, replacing, write_atomically


def test_a_new_file_has_the_rights_that_any_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    umask = os.umask(0o027)
    os.umask(umask)
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask is every thread's"))
    write_atomically(tmp_path / "file", b"x")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~umask
    write_atomically(tmp_path / "own", b"x", 0o600)
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o600 & ~umask


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(TypeError), replacing(tmp_path / "file") as file:
        file.writelines([b"new", None])  # type: ignore[list-item]
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_long_name_can_be_written(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("é" * 127), b"x")
    assert (tmp_path / ("é" * 127)).read_bytes() == b"x"


def test_a_private_folder_is_made_and_found_behind_a_link(tmp_path: Path) -> None:
    made = private_folder(tmp_path / "a" / "b")
    assert made.stat().st_mode & 0o777 == 0o700
    (tmp_path / "link").symlink_to(made)
    assert private_folder(tmp_path / "link") == made.resolve()


@pytest.mark.parametrize(
    ("outer", "inner", "allowed"),
    [
        *((0o700, mode, False) for mode in (0o777, 0o770, 0o702, 0o1777)),
        (0o777, 0o700, False),
        (0o1777, 0o700, True),
        (0o775, 0o700, True),  # a group of its user's own
    ],
)
def test_a_folder_that_others_can_write_or_replace_is_refused(
    tmp_path: Path, outer: int, inner: int, allowed: bool
) -> None:
    folder = tmp_path / "outer" / "inner"
    folder.mkdir(parents=True)
    folder.chmod(inner)
    folder.parent.chmod(outer)
    if allowed:
        assert private_folder(folder).name == "inner"
    else:
        with pytest.raises(InputError, match="others can write to it"):
            private_folder(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "theirs" / "inner", tmp_path / "theirs"):
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, 12345, 12345)
        with pytest.raises(InputError, match="belongs to another user"):
            private_folder(tmp_path / "theirs" / "inner")
        os.chown(path, 0, 0)


def test_a_folder_with_anything_odd_in_it_is_refused(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    for path, good, bad in ((inner / "file", 0o644, 0o664), (inner, 0o755, 0o770)):
        path.chmod(good)
        refuse_public_content(tmp_path)
        path.chmod(bad)
        with pytest.raises(InputError, match="others can write to it"):
            refuse_public_content(tmp_path)
        path.chmod(good)
    os.mkfifo(inner / "pipe", 0o600)
    (inner / "link").symlink_to(inner / "file")
    for _ in range(2):
        with pytest.raises(InputError) as error:
            refuse_public_content(tmp_path)
        odd = inner / str(error.value).partition(":")[0]
        odd.unlink()
    refuse_public_content(tmp_path)


def test_a_file_that_is_replaced_meanwhile_makes_no_folder_public(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes and renames its files there."""
    (tmp_path / "a").touch(0o600)
    (tmp_path / "b").touch(0o600)
    scan = os.scandir

    @contextmanager
    def scan_late(folder: Path) -> Iterator[Any]:
        with scan(folder) as entries:
            listed = list(entries)
        (tmp_path / "a").unlink()
        yield listed

    monkeypatch.setattr(os, "scandir", scan_late)
    refuse_public_content(tmp_path)


def test_a_pipe_is_refused_and_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is no regular file"):
        write_atomically(tmp_path / "pipe", b"x")
    assert (tmp_path / "pipe").is_fifo()
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]
