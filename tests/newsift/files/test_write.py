import os
import stat
from pathlib import Path

import pytest

from encoder.errors import InputError
from newsift.files.read import DASH
from newsift.files.write import check_targets, open_output


def write(path: Path, message: bytes = b"new", failure: BaseException | None = None) -> None:
    with open_output(path) as file:
        file.write(message)
        if failure is not None:
            raise failure


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_bytes(b"old")
    file.chmod(0o600)
    write(file)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o600)
    assert names(tmp_path) == {"out"}


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_what_it_means_is_replaced(tmp_path: Path, there: bool) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to("real")
    if there:
        real.write_bytes(b"old")
    write(link)
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert not real.is_symlink()


def test_a_device_stays_a_device() -> None:
    before = os.stat("/dev/null")  # noqa: PTH116 - the very inode
    write(Path("/dev/null"))
    after = os.stat("/dev/null")  # noqa: PTH116
    assert (before.st_ino, stat.S_ISCHR(after.st_mode)) == (after.st_ino, True)


def test_a_dash_is_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(DASH)
    assert capfdbinary.readouterr().out == b"new"
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("folder", "--out .*folder: is a folder; name a file in it"),
        ("link to a folder", "--out .*folder: is a folder"),
        ("no/such", "there is no folder .*no; create it first"),
        ("loop", "loop: cannot be written"),
        ("input", "is an input itself"),
        ("link to the input", "is an input itself"),
        ("pipe that is read", "is an input itself"),
        ("rejected", "name two files"),
    ],
)
def test_refuses_a_target_before_any_work(tmp_path: Path, out: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link to a folder").symlink_to("folder")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "input").touch()
    (tmp_path / "link to the input").symlink_to("input")
    os.mkfifo(tmp_path / "pipe that is read")
    targets = {"--out": tmp_path / out, "--rejected": tmp_path / "rejected"}
    with pytest.raises(InputError, match=message):
        check_targets(targets, [tmp_path / "input", tmp_path / "pipe that is read"])
    check_targets({"--out": Path("/dev/null"), "--rejected": Path("/dev/null")}, [])
