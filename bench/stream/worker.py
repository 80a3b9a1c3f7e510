"""The worker as a process of its own: started as users start it, watched from outside."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.stream.scene import Scene
from worker.cli.demo.process import WorkerProcess, worker_process

PATIENCE = 300.0  # seconds until a worker with many seeds is ready
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class WatchedWorker:
    """`faust -A worker worker` on a scene's topics, with a consumer group of its own."""

    process: WorkerProcess
    group: str

    def wait_until_ready(self) -> float:
        """Wait until it takes posts, and say for how many seconds."""
        return self.process.wait_until_ready(PATIENCE)

    def check(self) -> None:
        """Refuse to go on with a worker that has ended."""
        self.process.check()

    def resident(self) -> float:
        """Megabytes in memory now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def cpu(self) -> float:
        """Seconds of CPU used since the start, all threads together."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK


@contextmanager
def running_worker(scene: Scene, seeds: str) -> Iterator[WatchedWorker]:
    """A worker on the scene's topics while the block lasts, with the seeds of this role."""
    group = f"{scene.name}-{seeds}-{time.time_ns():x}"
    topics = {role: scene.topic(role) for role in ("posts", "matches", "rejected")}
    topics["seeds"] = scene.topic(seeds)
    settings = {f"NEWSIFT_TOPICS__{role.upper()}": name for role, name in topics.items()}
    # Forbidden to keep compiled modules, Python would compile them all at every start.
    settings |= {"NEWSIFT_KAFKA__GROUP": group, "PYTHONDONTWRITEBYTECODE": ""}
    with (
        tempfile.TemporaryDirectory() as folder,
        worker_process(scene.kafka, Path(folder), settings) as process,
    ):
        yield WatchedWorker(process, group)
