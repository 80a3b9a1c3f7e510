import errno
import json
import os
import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from encoder.errors import InputError
from newsift.collect.source import Gap, SourcePosition
from newsift.collect.state import default_state, list_collectors, open_state
from worker.errors import RunError

POSITION = SourcePosition(1_725_911_162_329_308, "jetstream.test", 1_725_911_162.3)


def test_a_stored_position_is_read_by_the_next(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "state.json"
    with open_state(file, "bluesky") as state:
        assert state.position is None
        state.count_gap(Gap("too old", 2.5))
        state.store(POSITION)
    with open_state(file, "bluesky") as state:
        assert state.position == POSITION
        state.store(SourcePosition("109", "mastodon.test"))
    assert json.loads(file.read_bytes()) | {"saved_at": ""} == {
        "schema": "newsift.collect/1", "source": "bluesky", "cursor": "109",
        "place": "mastodon.test", "at": None, "saved_at": "", "gaps": 1, "gap_seconds": 2.5,
    }  # fmt: skip
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_leaves_the_last_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state.json"
    with open_state(file, "bluesky") as state:
        state.store(POSITION)
        stored = file.read_bytes()
        monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "no space left")))
        with pytest.raises(RunError, match=re.escape(str(file))):
            state.store(SourcePosition("109", "mastodon.test"))
        assert state.position == POSITION
    assert file.read_bytes() == stored
    with pytest.raises(InputError, match=re.escape(str(file))):
        open_state(file, "bluesky").__enter__()


def test_refuses_a_second_collector(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    with open_state(file, "bluesky"), pytest.raises(InputError, match="in use by another command"):
        open_state(file, "bluesky").__enter__()
    with open_state(file, "bluesky"):
        pass


@pytest.mark.parametrize("content", [
    b"", b"[]", b'{"cursor": 1}', b" " * 2**17,
    b'{"schema": "newsift.collect/2", "source": "bluesky", "cursor": 1, "place": ""}',
    b'{"schema": "newsift.collect/1", "source": "x", "cursor": 1, "place": ""}',
    b'{"schema": "newsift.collect/1", "source": "bluesky", "cursor": [1], "place": ""}',
    b"[" * 9999,
])  # fmt: skip
def test_a_file_that_is_no_state_of_this_source_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "state.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"^--state: .*delete this one"):
        open_state(file, "bluesky").__enter__()
    assert file.read_bytes() == content
    file.unlink()
    with open_state(file, "bluesky") as state:  # the refusal has left no lock
        assert state.position is None


AT = 1_725_911_162.5
TOLD = "2024-09-09T19:46:02.500Z"


def test_lists_collectors_and_their_positions() -> None:
    with open_state(default_state("bluesky"), "bluesky") as state:
        state.store(SourcePosition(17, "jetstream.test", AT))
    with open_state(default_state("x"), "x"):
        rows = {row["source"]: row for row in list_collectors()}
    assert rows.keys() == {"bluesky", "x"}
    assert (rows["bluesky"]["running"], rows["bluesky"]["last_post_at"]) == (False, TOLD)
    assert (rows["x"]["running"], rows["x"]["saved_at"]) == (True, None)
    assert [row["running"] for row in list_collectors()] == [False, False]


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b"{}", b'{"schema": 1}', b"x" * 2**17, b"[" * 9999]
)
def test_lists_a_damaged_state_by_name(content: bytes) -> None:
    file = default_state("odd")
    file.parent.mkdir()
    file.write_bytes(content)
    (row,) = list_collectors()
    assert row == {
        "source": "odd", "running": False, "last_post_at": None, "saved_at": None,
        "gaps": 0, "gap_seconds": 0.0, "state": str(file),
    }  # fmt: skip
