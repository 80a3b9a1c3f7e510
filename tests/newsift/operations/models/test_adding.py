"""A model is added whole, or not at all; what ends it leaves nothing that has a name."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from encoder.errors import InputError, ModelError, NewsiftError
from encoder.support.named import model_directory, named_models
from newsift.operations.models import add, remove
from tests.newsift.operations.models.conftest import Packed, WebSide


@pytest.fixture
def file(tmp_path: Path, packed: Packed) -> Path:
    (tmp_path / "own.tar").write_bytes(packed)
    return tmp_path / "own.tar"


def visible(state: Path) -> set[str]:
    return {path.name for path in state.iterdir()} - {".lock"} if state.exists() else set()


def test_a_file_is_added_found_and_taken_away(state: Path, file: Path, packed: Packed) -> None:
    assert add(str(file), packed.digest, None) == state / "own" == model_directory("own")
    assert add(str(file), None, "other") == state / "other"
    remove("own")
    assert visible(state) == {"other"}
    with pytest.raises(InputError, match=r"'own'.*\(added: other\)"):
        remove("own")


@pytest.mark.parametrize("name", ["..", ".lock", "a/b", "Own", "", "x" * 65, "own\n"])
def test_odd_names_are_refused(file: Path, state: Path, name: str) -> None:
    if name:
        with pytest.raises(InputError, match="--name"):
            add(str(file), None, name)
    with pytest.raises(InputError):
        remove(name)
    assert visible(state) == set()


def test_what_ships_stays(file: Path) -> None:
    with pytest.raises(InputError, match="ships with newsift"):
        add(str(file), None, "default")
    with pytest.raises(InputError, match="ships with newsift"):
        remove("default")


def test_a_name_that_is_taken_is_refused_and_stays(state: Path, file: Path) -> None:
    add(str(file), None, None)
    before = (state / "own" / "manifest.json").read_bytes()
    with pytest.raises(InputError, match="`newsift models remove own`"):
        add(str(file), None, None)
    assert (state / "own" / "manifest.json").read_bytes() == before


def test_an_address_needs_a_digest_and_is_added_by_it(
    state: Path, web: WebSide, packed: Packed
) -> None:
    web.files["/dir/own.tar"] = packed
    with pytest.raises(InputError, match="needs --digest"):
        add(f"{web.base}/dir/own.tar", None, None)
    assert add(f"{web.base}/dir/own.tar?v=1", packed.digest, None) == state / "own"
    assert visible(state) == {"own"}


def test_a_wrong_digest_is_refused_before_anything_is_unpacked(
    state: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsift.operations.models.unpack", lambda *_: pytest.fail("was unpacked"))
    with pytest.raises(ModelError, match=f"wrong digest .* expected {'0' * 64}"):
        add(str(file), "0" * 64, None)
    assert visible(state) == set()


def test_what_the_models_own_check_refuses_is_not_added(
    state: Path, tmp_path: Path, packed: Packed
) -> None:
    at = packed.index(b"vocabulary.txt\0") + 512
    bad = tmp_path / "bad.tar"
    bad.write_bytes(packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1 :])
    with pytest.raises(ModelError) as output:
        add(str(bad), None, None)
    assert "vocabulary.txt: wrong digest" in str(output.value)
    assert ".adding-" not in str(output.value)
    assert visible(state) == set()


def test_no_file_a_pipe_and_a_folder_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("none", "pipe", "."):
        with pytest.raises(NewsiftError, match=r"cannot be read|no regular file"):
            add(str(tmp_path / name), None, "own")


def test_a_second_one_at_once_is_refused_and_the_first_ends_well(
    state: Path, file: Path, web: WebSide, packed: Packed
) -> None:
    web.files["/own.tar"] = packed
    first = threading.Thread(target=add, args=[f"{web.base}/slow/own.tar", packed.digest, None])
    first.start()
    try:
        assert web.halfway.wait(30)
        with pytest.raises(InputError, match="under way"):
            add(str(file), None, "second")
        assert list(named_models()) == ["default"]
    finally:
        web.go_on.set()
        first.join(30)
    assert visible(state) == {"own"}


def test_one_that_is_killed_in_the_middle_leaves_no_model_and_is_swept(
    state: Path, file: Path, web: WebSide, packed: Packed
) -> None:
    web.files["/own.tar"] = packed
    words = ["models", "add", f"{web.base}/slow/own.tar", "--digest", packed.digest]
    code = "import sys, newsift.cli; sys.exit(newsift.cli.run(sys.argv[1:]))"
    child = subprocess.Popen([sys.executable, "-c", code, *words])
    try:
        assert web.halfway.wait(60)
    finally:
        child.kill()
        child.wait()
    assert list(named_models()) == ["default"]
    assert len(visible(state)) == 1  # hidden, and swept by the next
    add(str(file), None, "next")
    assert visible(state) == {"next"}


def test_a_connection_that_breaks_off_leaves_nothing(
    state: Path, web: WebSide, packed: Packed
) -> None:
    web.files["/own.tar"], web.short = packed, 1000
    with pytest.raises(InputError, match="ends early"):
        add(f"{web.base}/own.tar", packed.digest, None)
    assert visible(state) == set()


def test_a_full_disk_and_a_place_that_cannot_be_written_are_named(
    state: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("newsift.operations.models.unpack", full)
        with pytest.raises(InputError, match="No space left"):
            add(str(file), None, None)
    assert visible(state) == set()
    monkeypatch.setenv("NEWSIFT_STATE", str(file))
    with pytest.raises(InputError, match=r"cannot be written.*NEWSIFT_STATE"):
        add(str(file), None, None)
