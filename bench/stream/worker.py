"""The worker as a process of its own: started as users start it, watched from outside."""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import yaml

from bench.measure import NotAvailable
from bench.stream.scene import Scene
from worker.cli.demo.process import faust, free_port

ROOT = Path(__file__).parents[2]
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Worker:
    """`faust -A worker worker` on a scene's topics, with a consumer group of its own."""

    scene: Scene
    seeds: str
    group: str
    folder: Path
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    def __enter__(self) -> Self:
        config = self.folder / f"{self.group}.yaml"
        config.write_text(yaml.safe_dump(self._config()))
        # Forbidden to keep compiled modules, Python would compile them all at every start.
        env = {key: value for key, value in os.environ.items() if not key.startswith("NEWSIFT_K")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        log = (self.folder / f"{self.group}.log").open("wb")
        self.process = subprocess.Popen(
            [*faust(), "-A", "worker", "worker"],
            cwd=ROOT, env=env | {"NEWSIFT_CONFIG": str(config)}, stdout=log, stderr=log,
        )  # fmt: skip
        log.close()
        return self

    def __exit__(self, *_: object) -> None:
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wait_until_ready(self, seconds: float = 300) -> float:
        """Wait until /readyz says so; the seconds that took."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if self._answers():
                return time.monotonic() - began
            self.check()
            time.sleep(0.02)
        raise NotAvailable(f"the worker was not ready after {seconds:g} s; see {self._log()}")

    def check(self) -> None:
        """Refuse to go on with a worker that has ended."""
        code = self._running().poll()
        if code is not None:
            said = (self._log().read_text(errors="replace").strip().splitlines() or ["nothing"])[-1]
            raise NotAvailable(f"the worker ended with {code}: {said}")

    def resident(self) -> float:
        """Megabytes in memory now."""
        status = Path(f"/proc/{self._running().pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def cpu(self) -> float:
        """Seconds of CPU used since the start, all threads together."""
        stat = Path(f"/proc/{self._running().pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def _config(self) -> dict[str, object]:
        names = {role: self.scene.topic(role) for role in ("posts", "matches", "rejected")}
        return {
            "kafka": {"bootstrap_servers": self.scene.kafka, "group": self.group},
            "topics": names | {"seeds": self.scene.topic(self.seeds)},
            "web": {"port": self.port},
        }

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=1) as said:
                return bool(said.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _log(self) -> Path:
        return self.folder / f"{self.group}.log"

    def _running(self) -> "subprocess.Popen[bytes]":
        if self.process is None:
            raise NotAvailable("the worker was not started")
        return self.process
