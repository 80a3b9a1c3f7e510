"""The command itself: its table, its help, and how errors leave it."""

import subprocess
import sys
from types import SimpleNamespace

import click
import pytest

import worker.cli
import worker.cli.table
from encoder import ModelError
from tests.worker.fake import Command

HEAVY = ("numpy", "numba", "torch", "safetensors")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("ask", [["--help"], ["-h"], ["--version"]])
def test_help_and_version_load_nothing_heavy(ask: list[str]) -> None:
    done = python(
        f"import sys, worker.cli; code = worker.cli.run({ask!r});"
        f"print([m for m in {HEAVY!r} if m in sys.modules]); sys.exit(code)"
    )
    assert done.returncode == 0
    assert done.stdout.endswith("\n[]\n")


def test_help_lists_every_command_with_its_line(newsift: Command) -> None:
    out = newsift("--help").out
    for name, (_, text) in worker.cli.COMMANDS.items():
        assert f"  {name} " in out
        assert text in out


@pytest.mark.parametrize("name", worker.cli.COMMANDS)
def test_every_command_of_the_table_exists_and_has_help(newsift: Command, name: str) -> None:
    done = newsift(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: newsift {name}")
    assert "\\b" not in done.out


def test_no_command_shows_the_help(newsift: Command) -> None:
    done = newsift()
    assert done.code == 2
    assert "Commands:" in done.err


@pytest.mark.parametrize(
    ("typed", "said"), [("embd", "did you mean 'embed'?"), ("zzz", "see 'newsift --help'")]
)
def test_unknown_command(newsift: Command, typed: str, said: str) -> None:
    done = newsift(typed)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"newsift: no such command {typed!r}; {said}\n"


def test_unknown_option_is_one_line(newsift: Command) -> None:
    done = newsift("embed", "--atricles")
    assert done.code == 2
    assert done.err.startswith("newsift: No such option")
    assert done.err.count("\n") == 1


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
    monkeypatch.setattr(worker.cli.table, "import_module", lambda _: module)
    monkeypatch.setitem(worker.cli.COMMANDS, "fail", ("somewhere:fail", "Fail."))
    monkeypatch.delenv("NEWSIFT_DEBUG", raising=False)
    done = newsift("fail")
    assert (done.code, done.out, done.err.lstrip("\n")) == (code, "", line)


def test_the_traceback_comes_when_asked_for(
    newsift: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_DEBUG", "1")
    monkeypatch.setitem(worker.cli.COMMANDS, "gone", ("no.such.module:x", "Fail."))
    done = newsift("gone")
    assert done.code == 1
    assert "Traceback" in done.err


def test_a_full_disk_is_one_line() -> None:
    code = "import sys, worker.cli; sys.exit(worker.cli.run(['--help']))"
    shell = f'"{sys.executable}" -c "{code}" > /dev/full'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    said = "what it prints, or puts by, cannot be written (No space left on device); make room"
    assert (done.returncode, done.stderr) == (1, f"newsift: {said}\n")


def test_a_reader_that_leaves_is_no_error_message() -> None:
    code = (
        "import sys, click, worker.cli as c;"
        "sys.modules['many'] = type(sys)('many');"
        "sys.modules['many'].f = click.command()(lambda: [print('x' * 999) for _ in range(999)]);"
        "c.COMMANDS['many'] = ('many:f', ''); sys.argv = ['newsift', 'many']; c.main()"
    )
    shell = f'"{sys.executable}" -c "{code}" | head -n 1'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (len(done.stdout), done.stderr) == (1000, "")
