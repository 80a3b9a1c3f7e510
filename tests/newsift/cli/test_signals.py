import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from newsift.cli import cli, run, runs_until_ended
from newsift.cli.signals import INTERRUPTS, defer_interrupts, holding_interrupts, interruptible
from tests.broker.clients import until
from tests.worker.command_processes import said_until_ended_by, started
from tests.worker.sample_articles import FERRY, lines, write_seeds


def test_sigterm_completes_the_file_as_ctrl_c_does(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    write_seeds(seeds)
    source, out = tmp_path / "posts", tmp_path / "out"
    os.mkfifo(source)
    args = ["filter", "--force", source, "--seeds", seeds, "--out", out, "--device", "cpu"]
    with started(*args) as process, source.open("wb") as pipe:
        pipe.write(lines({"id": "1", "text": FERRY}))
        pipe.flush()
        until(lambda: any(f.stat().st_size for f in tmp_path.glob(".newsift-*")))
        message = said_until_ended_by(signal.SIGTERM, process)
    assert process.returncode == 130, message
    assert '"id":"1"' in out.read_text("utf-8")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out", "posts", "seeds"]


@pytest.mark.parametrize("number", INTERRUPTS)
def test_an_interrupt_waits_for_the_end_of_a_held_block_and_for_no_other(number: int) -> None:
    ended = []
    with interruptible() as signals, holding_interrupts() as hold:
        with pytest.raises(KeyboardInterrupt), hold:  # noqa: PT012
            signal.raise_signal(number)
            ended.append("held")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        with hold:
            ended.append("again")
    assert (ended, signals) == (["held", "again"], [number, number])


in_c_code = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGTERM))


def test_an_interrupt_that_c_code_swallows_comes_again() -> None:
    before = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), interruptible():  # noqa: PT012
        in_c_code()
        passed_over = True
        time.sleep(60)
    assert passed_over
    assert sys.unraisablehook is before


@pytest.mark.parametrize(
    ("name", "number", "code"),
    [
        ("collect", signal.SIGTERM, 0), ("collect", signal.SIGINT, 130),
        ("filter", signal.SIGTERM, 130),
    ],
)  # fmt: skip
def test_a_signal_during_import_ends_a_command(
    monkeypatch: pytest.MonkeyPatch, name: str, number: signal.Signals, code: int
) -> None:
    monkeypatch.setattr("newsift.cli.import_module", lambda _: signal.raise_signal(number))
    assert run([name, "--any"]) == code


def test_what_fails_on_account_of_an_interrupt_is_the_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compiling(**_: object) -> None:
        in_c_code()
        raise RuntimeError("no compiled object yet")

    monkeypatch.setattr(cli, "main", compiling)
    assert run([]) == 130
    assert capsys.readouterr().err == "newsift: interrupted\n"


@pytest.mark.parametrize("kind", INTERRUPTS)
@pytest.mark.parametrize("deferred", [True, False])
def test_an_interrupt_waits_for_deferred_work_alone(kind: signal.Signals, deferred: bool) -> None:
    done = []

    def work() -> None:
        with defer_interrupts() if deferred else interruptible():
            os.kill(os.getpid(), kind)
            done.append("the rest")

    before = signal.getsignal(kind)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == (["the rest"] if deferred else [])
    assert signal.getsignal(kind) is before


INTERRUPTED_IMPORT = """
import signal, sys
from importlib.metadata import entry_points

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            signal.raise_signal(signal.SIGINT)

(command,) = entry_points(group="console_scripts", name="newsift")
sys.meta_path.insert(0, Interrupt())
command.load()
"""


def test_ctrl_c_while_the_command_is_imported_prints_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"")


@pytest.mark.parametrize(
    ("command", "is_so"),
    [
        ("worker", True), ("desk --port 0", True), ("broker", True), ("collect bluesky", True),
        ("collect files d --once", False), ("collect bluesky --dry-run", False),
        ("seeds follow F", True), ("seeds follow F --once", False), ("seeds add F", False),
        ("prune --follow", True), ("prune --author a --platform x --yes", False), ("prune", False),
        ("matches --post-to=URL", True), ("matches --json", True), ("matches --limit 3", False),
        ("matches --out f.csv", False), ("matches --no-follow", False),
        ("matches --since=2h", False), ("matches --since=2h --follow", True),
        ("events learn E --every 1h", True), ("events learn E", False), ("demo", False),
    ],
)  # fmt: skip
def test_sigterm_is_the_regular_end_of_what_has_no_other(command: str, is_so: bool) -> None:
    assert runs_until_ended(command.split()) is is_so


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_a_worker_that_is_being_imported(number: int, code: int) -> None:
    script = f"import newsift.faust, os; os.kill(os.getpid(), {int(number)})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (code, b"")
