"""A worker as the operating system sees it: the process `faust -A worker worker`."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.faults import injected_faults

ROOT = Path(__file__).parents[2]
ARGUMENTS = ["-A", "worker", "worker"]
FAUST = Path(sys.executable).with_name("faust")
ENDS_WITHIN_S = 90
SITE = "from tests.faults import injected_faults\n\ninjected_faults.install()\n"
# Imports take most of a start, so tests fork their workers from a process that has done them.
PRELOADED = [
    "worker.process.app", "worker.metrics.web", "faust.cli.faust", "tests.faults.preloaded",
]  # fmt: skip


class Process(Protocol):
    pid: int

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""


class Forked:
    """A worker out of a process that had imported all it needs; else as the command does it."""

    def __init__(self, env: dict[str, str], log: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        os.environ["OMP_NUM_THREADS"] = "1"  # the server forks, so it must have no threads
        self._process = context.Process(target=run_forked, args=(env, str(log)), daemon=True)
        self._process.start()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode


def run_forked(env: dict[str, str], log: str) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ.update(env)
    os.chdir(ROOT)
    injected_faults.install()
    sys.argv = ["faust", *ARGUMENTS]
    from faust.cli.faust import cli

    cli()


def commanded(env: dict[str, str], log: Path, folder: Path) -> Process:
    (folder / "sitecustomize.py").write_text(SITE, "utf-8")
    env = os.environ | env | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    with log.open("wb") as out:
        return subprocess.Popen(
            [FAUST, *ARGUMENTS],
            cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        )  # fmt: skip


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


class Worker:
    def __init__(
        self, folder: Path, config: Path, fault: dict[str, Any] | None = None, *, fork: bool = True
    ) -> None:
        folder.mkdir(parents=True)
        self.config = config
        self.proof = folder / "proof"
        self.log = folder / "log"
        self.log.touch()
        env = {"NEWSIFT_CONFIG": str(self.config), "OMP_NUM_THREADS": "1"}
        if fault is not None:
            env[injected_faults.VARIABLE] = json.dumps(fault | {"proof": str(self.proof)})
        self.process: Process = Forked(env, self.log) if fork else commanded(env, self.log, folder)

    @property
    def output(self) -> str:
        return self.log.read_text("utf-8", "replace")

    @property
    def proofs(self) -> list[str]:
        return self.proof.read_text("utf-8").splitlines() if self.proof.exists() else []

    def alive(self) -> bool:
        return self.process.poll() is None

    def ready(self) -> None:
        deadline = time.monotonic() + ENDS_WITHIN_S
        while "ready:" not in self.output:
            assert self.alive(), f"the worker ended with {self.process.poll()}:\n{self.output}"
            assert time.monotonic() < deadline, f"the worker is not ready:\n{self.output}"
            time.sleep(0.02)

    def assignments(self) -> int:
        """How often the group has assigned it partitions."""
        return self.output.count(" to read: ")

    def partitions(self) -> set[int]:
        """Those of its last assignment."""
        lines = [line for line in self.output.splitlines() if " to read: " in line]
        numbers = lines[-1].rsplit(": ", 1)[1] if lines else "none"
        return set() if numbers == "none" else set(map(int, numbers.split(", ")))

    def memory(self) -> int:
        return resident(self.process.pid)

    def page(self, path: str) -> dict[str, Any] | None:
        """What its web server answers, whatever the status; None while there is none."""
        lines = [line for line in self.output.splitlines() if line.endswith("/metrics")]
        if not lines:
            return None
        url = lines[0].rsplit(" ", 1)[1].removesuffix("/metrics") + path
        try:
            with urlopen(url, timeout=ENDS_WITHIN_S) as answer:
                result: dict[str, Any] = json.load(answer)
        except HTTPError as error:
            result = json.load(error)
        return result

    def refused(self, *words: str, code: int = 2) -> None:
        """Wait for its end: this exit code, and one line, the last, that says these words."""
        assert self.ended() == code, self.output
        last = self.output.splitlines()[-1]
        assert last.startswith("newsift: "), self.output
        assert [word for word in words if word not in last] == [], self.output
        assert "Traceback" not in self.output
        assert self.output.count("newsift: ") == 1

    def ended(self) -> int:
        deadline = time.monotonic() + ENDS_WITHIN_S
        while (code := self.process.poll()) is None:
            assert time.monotonic() < deadline, f"the worker goes on:\n{self.output}"
            time.sleep(0.01)
        return code

    def signal(self, number: signal.Signals) -> None:
        if self.alive():
            os.kill(self.process.pid, number)

    def terminate(self) -> int:
        self.signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.ended()
