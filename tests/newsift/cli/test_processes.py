import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.clients import until
from tests.worker.command_processes import environment

PARENT = """
import sys, time
from pathlib import Path
from newsift.broker.server import running
from newsift.cli.processes import worker_process
with running() as broker, worker_process(broker.address, Path(sys.argv[1]), {}) as worker:
    worker.wait_until_ready()
    print(worker.pid, flush=True)
    time.sleep(600)
"""


def runs(pid: int) -> bool:
    """Whether a process is there, and not only as an entry that nobody has asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="no other system has a signal for it")
def test_a_worker_ends_with_the_process_that_is_its_parent_and_its_broker(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path], env=environment(), stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    with parent.stdout:
        worker = int(parent.stdout.readline())
        assert runs(worker)
        parent.kill()
        parent.wait()
        until(lambda: not runs(worker))
