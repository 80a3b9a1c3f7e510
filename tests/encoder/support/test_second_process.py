"""The second process of a first start."""

import logging
import time
from pathlib import Path

import pytest

from encoder.support import second_process as beside
from encoder.support.second_process import second_process


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(beside, "FOLDER", tmp_path / "jit")
    monkeypatch.setattr(beside, "available_cpus", lambda: 2)
    (tmp_path / "jit" / "text").mkdir(parents=True)
    return tmp_path


def runs(folder: Path) -> tuple[bool, bool]:
    with second_process("zipfile", "-c", str(folder / "made"), __file__) as first:
        pass
    return first, (folder / "made").exists()


def test_a_module_runs_at_the_first_start(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "newsift.encoder"):
        assert runs(folder) == (True, True)
    assert [r.getMessage()[:22] for r in caplog.records] == ["compiling for this CPU"]


def test_nothing_runs_at_later_starts(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "jit" / "text" / "scan.nbi").write_text("code")
    with caplog.at_level(logging.INFO, "newsift.encoder"):
        assert runs(folder) == (False, False)
        monkeypatch.setattr(beside, "FOLDER", None)
        assert runs(folder) == (False, False)
    assert not caplog.records


@pytest.mark.usefixtures("folder")
def test_a_module_that_fails_does_no_harm() -> None:
    with second_process("no.such.module") as first:
        assert first


@pytest.mark.usefixtures("folder")
def test_an_error_ends_the_other_process_too() -> None:
    began = time.monotonic()
    with pytest.raises(ValueError, match="model"), second_process("http.server", "0"):
        raise ValueError("model")
    assert time.monotonic() - began < 60
