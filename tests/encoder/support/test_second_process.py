"""The second process of a first start: it runs where nothing is compiled, and only there."""

import logging
import sys
import time
from pathlib import Path

import pytest

from encoder.first_start import read_texts
from encoder.model_directory import write_model
from encoder.support import second_process as beside
from encoder.support.second_process import second_process
from tests.encoder.small import small_model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(beside, "FOLDER", tmp_path / "jit")
    monkeypatch.setattr(beside, "available_cpus", lambda: 2)
    (tmp_path / "jit" / "text").mkdir(parents=True)
    return tmp_path


def runs(folder: Path) -> tuple[bool, bool]:
    """Whether the block is told of a first start, and whether a module ran beside it."""
    with second_process("zipfile", "-c", str(folder / "made"), __file__) as first:
        pass
    return first, (folder / "made").exists()


def test_a_module_runs_where_nothing_is_compiled(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "newsift.encoder"):
        assert runs(folder) == (True, True)
    assert [r.getMessage()[:22] for r in caplog.records] == ["compiling for this CPU"]


def test_nothing_runs_and_nothing_is_said_at_later_starts(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "jit" / "text" / "scan.nbi").write_text("code")
    with caplog.at_level(logging.INFO, "newsift.encoder"):
        assert runs(folder) == (False, False)
        monkeypatch.setattr(beside, "FOLDER", None)
        assert runs(folder) == (False, False)
    assert not caplog.records


def test_one_cpu_is_left_to_this_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "available_cpus", lambda: 1)
    assert runs(folder) == (True, False)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_without_a_log_gets_one_line(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    beside.tell("compiling")
    assert capsys.readouterr().err == "newsift: compiling\n" * terminal


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


def test_what_it_does_on_a_first_start_works(tmp_path: Path) -> None:
    write_model(tmp_path / "m", small_model())
    read_texts(tmp_path / "m")


def test_one_that_does_not_end_holds_nobody_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "LONGEST_S", 0.2)
    with second_process("http.server", "--bind", "127.0.0.1", "0") as first:
        assert first
