"""What strangers wrote, where an operator meets it: in his terminal, his files, his folders."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unicodedata import category

import pytest

from tests.broker.clients import until
from tests.faults.process import ROOT
from tests.hostile.attack import attacked
from tests.hostile.target import ARTICLE, Target, post, seed
from tests.worker.fake import Command

STEERS = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202e\u2066\x00\x7f"
COMMANDS = [
    "seeds list", "seeds list --json", "seeds show steers", "seeds show steers --json", "status",
    "status --json", "matches --no-follow", "matches --no-follow --json", "dead-letters list",
    "dead-letters list --json",
]  # fmt: skip
NEWSIFT = Path(sys.executable).with_name("newsift")
MEMORY = 4 * 2**30  # bytes of addresses; PyTorch alone takes two
ENDS_WITHIN_S = 120


def test_nothing_steers_the_terminal_or_the_log(
    target: Target, newsift: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_CONFIG", str(target.config))
    said = f"steers {STEERS}"
    with attacked(target) as attack:
        more = {"title": said, "event": said, "url": f"https://a.example/{STEERS}"}
        target.write("seeds", [seed(f"{ARTICLE} {said}", **more)], key=b"steers")
        target.write("seeds", [b'{"text": 5, "title": 6}'], key=f"bad {STEERS}".encode())
        until(lambda: target.live("steers"))
        attack.posts([post(said, f"{ARTICLE} {said}", author=said, url=said)])
        attack.posts([json.dumps({said: 1}).encode(), b"{" + STEERS.encode()])
    for command in COMMANDS:
        done = newsift(*command.split())
        assert done.code == 0, (command, done.err)
        assert steering(done.out + done.err) == set(), command
    assert steering(target.worker.said) == set()
    target.forget(b"steers", f"bad {STEERS}".encode())


def steering(text: str) -> set[str]:
    """The characters that a terminal obeys in place of showing them."""
    return {char for char in text if category(char) in ("Cc", "Cf") and char not in "\n\t"}


def endless(folder: Path) -> None:
    (folder / "manifest.json").symlink_to("/dev/zero")


def sparse(folder: Path) -> None:
    with (folder / "manifest.json").open("wb") as file:
        file.truncate(2**40)


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "manifest.json")


def nested(folder: Path) -> None:
    (folder / "manifest.json").write_text("[" * 500_000)


def ended(*arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """A command of newsift's in bounds of memory, which ends by itself in time."""

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    return subprocess.run(
        [NEWSIFT, *arguments], cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"} | env,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=ENDS_WITHIN_S, preexec_fn=bounded,
    )  # fmt: skip


@pytest.mark.parametrize("make", [endless, sparse, pipe, nested])
def test_a_model_directory_that_is_none_is_refused_unread(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path)
    done = ended("explain", "a storm", "--model", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "manifest.json" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_pipe_in_the_place_of_a_configuration_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.yaml")
    done = ended("config", "check", NEWSIFT_CONFIG=str(tmp_path / "config.yaml"))
    assert done.returncode == 2
    assert "config.yaml" in done.stderr
