import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from encoder import ModelError
from newsift.broker.server import running
from newsift.cli import COMMANDS, GROUPS
from tests.worker.command_processes import logged
from tests.worker.fake_command import Command

HEAVY = ("numpy", "numba", "torch", "safetensors")


@pytest.mark.parametrize("ask", [["--help"], ["-h"], ["--version"]])
def test_help_and_version_load_nothing_heavy(ask: list[str]) -> None:
    code = (
        f"import sys, newsift.cli; code = newsift.cli.run({ask!r});"
        f"print([m for m in {HEAVY!r} if m in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("embd", "did you mean 'embed'?"), ("zzz", "see 'newsift --help'"),
        ("seeds lst", "did you mean 'list'?"), ("seeds zzz", "see 'newsift seeds --help'"),
    ],
)  # fmt: skip
def test_unknown_command(newsift: Command, typed: str, message: str) -> None:
    *groups, name = typed.split()
    done = newsift(*groups, name)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"newsift: no such command {name!r}; {message}\n"


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (ModelError("gone;\nfetch it"), 2, "newsift: gone; fetch it\n"),
        (RuntimeError("odd"), 1, "newsift: RuntimeError: odd\n"),
        (KeyboardInterrupt(), 130, "newsift: interrupted\n"),
        (EOFError("cut"), 130, "newsift: interrupted\n"),
        (click.UsageError("no"), 2, "newsift: no\n"),
    ],
)
def test_errors_are_one_line_and_a_code(
    newsift: Command, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int, line: str
) -> None:
    def fail() -> None:
        raise raised

    module = SimpleNamespace(fail=click.command()(fail))
    monkeypatch.setattr("newsift.cli.import_module", lambda _: module)
    monkeypatch.setitem(COMMANDS, "fail", ("somewhere:fail", "Fail."))
    monkeypatch.delenv("NEWSIFT_DEBUG", raising=False)
    done = newsift("fail")
    assert (done.code, done.out, done.err.lstrip("\n")) == (code, "", line)


def test_debug_prints_the_traceback(newsift: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_DEBUG", "1")
    monkeypatch.setitem(COMMANDS, "gone", ("no.such.module:x", "Fail."))
    done = newsift("gone")
    assert done.code == 1
    assert "Traceback" in done.err


def shell(code: str, rest: str) -> "subprocess.CompletedProcess[str]":
    """Run code of Python with what follows it on the shell's command line."""
    line = f'"{sys.executable}" -c "{code}" {rest}'
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)


def test_a_full_disk_is_one_line() -> None:
    done = shell("import sys, newsift.cli; sys.exit(newsift.cli.run(['--help']))", "> /dev/full")
    message = (
        "the output, or a temporary file, cannot be written (No space left on device); make room"
    )
    assert (done.returncode, done.stderr) == (1, f"newsift: {message}\n")


def test_closed_standard_streams_are_no_error() -> None:
    code = (
        "import sys, newsift.cli as c;sys.argv = ['newsift', 'config', 'show']; sys.exit(c.main())"
    )
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        done = shell(code, closed)
        assert (done.returncode, done.stderr) == (0, ""), closed


def test_a_reader_that_leaves_is_no_error_message() -> None:
    code = (
        "import sys, click, newsift.cli as c;"
        "sys.modules['many'] = type(sys)('many');"
        "sys.modules['many'].f = click.command()(lambda: [print('x' * 999) for _ in range(999)]);"
        "c.COMMANDS['many'] = ('many:f', ''); sys.argv = ['newsift', 'many']; c.main()"
    )
    done = shell(code, "| head -n 1")
    assert (len(done.stdout), done.stderr) == (1000, "")


def test_every_command_is_in_one_group_of_the_help() -> None:
    assert [*GROUPS] == ["Start", "Watch", "Judge", "Operate", "Develop"]
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)


def test_worker_becomes_faust_s_worker_in_the_same_process(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("matching: {threshold: 0.5}\nweb: {port: 0}\n")
    given = ("worker", "--config", "own.yaml", "-l", "info")
    with running() as address, logged(tmp_path, "newsift", *given, "--kafka", address) as worker:
        worker.wait_for("ready: 0 seeds")
        command = Path(f"/proc/{worker.process.pid}/cmdline").read_bytes().split(b"\0")
        assert worker.leave() == 0, worker.output
    assert command[-6:-1] == [b"-A", b"worker", b"worker", b"-l", b"info"]
