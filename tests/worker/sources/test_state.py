"""The state file: what is stored is there again, and only one may have it."""

import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from encoder.errors import InputError
from worker.sources.frame import Gap, Mark
from worker.sources.state import State, default_state

MARK = Mark(1_725_911_162_329_308, "jetstream.test", 1_725_911_162.3)


def test_what_was_stored_is_there_for_the_next(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "state.json"
    with State(file, "bluesky") as state:
        assert state.mark is None
        state.note(Gap("too old", 2.5))
        state.store(MARK)
    with State(file, "bluesky") as state:
        assert state.mark == MARK
        state.store(Mark("109", "mastodon.test"))
    assert json.loads(file.read_bytes()) | {"saved": ""} == {
        "schema": "newsift.collect/1", "source": "bluesky", "cursor": "109",
        "place": "mastodon.test", "at": None, "saved": "", "gaps": 1, "gap_seconds": 2.5,
    }  # fmt: skip
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_state_that_cannot_be_kept_any_more_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state.json"
    with State(file, "bluesky") as state:
        state.store(MARK)
    before = file.read_bytes()

    def full(path: Path, content: bytes, mode: int) -> None:
        raise InputError(f"{path}: cannot be written (No space left on device)")

    monkeypatch.setattr("worker.sources.state.write_atomically", full)
    with (
        pytest.raises(InputError, match=r"^--state: .*No space left.*make room"),
        State(file, "bluesky"),
    ):
        pytest.fail("it began")
    monkeypatch.undo()
    with State(file, "bluesky") as state:  # it is locked no more
        assert (state.mark, file.read_bytes()) == (MARK, before)


def test_a_second_collector_is_refused_even_in_another_process(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    code = f"""
from pathlib import Path
from worker.sources.state import State
State(Path({str(file)!r}), "bluesky").__enter__()
"""
    with State(file, "bluesky"):
        with pytest.raises(InputError, match="in use by another command"):
            State(file, "bluesky").__enter__()
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert b"in use by another command" in other.stderr
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_who_only_looks_whether_it_is_locked_refuses_nobody(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    with State(file, "bluesky"):
        pass
    looking = os.open(file.with_name("state.json.lock"), os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.03, os.close, (looking,)).start()
    with State(file, "bluesky") as state:
        assert state.mark is None


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b"null", b'{"cursor": 1}', b"\xff" * 100, b" " * 2**17,
    b'{"schema": "newsift.collect/2", "source": "bluesky", "cursor": 1, "place": ""}',
    b'{"schema": "newsift.collect/1", "source": "x", "cursor": 1, "place": ""}',
    b'{"schema": "newsift.collect/1", "source": "bluesky", "cursor": [1], "place": ""}',
])  # fmt: skip
def test_a_file_that_is_no_state_of_this_source_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "state.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"^--state: .*delete it"):
        State(file, "bluesky").__enter__()
    assert file.read_bytes() == content
    file.unlink()
    with State(file, "bluesky") as state:  # the refusal has left no lock
        assert state.mark is None


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="cannot be written"):
        State(tmp_path / "file" / "state.json", "bluesky").__enter__()


def test_the_default_lies_in_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEWSIFT_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert default_state("bluesky") == Path("/somewhere/newsift/collect-bluesky.json")
    monkeypatch.setenv("NEWSIFT_STATE", "/elsewhere")
    assert default_state("x") == Path("/elsewhere/collect-x.json")
