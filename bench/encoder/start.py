"""What a fresh process pays before its first embedding, and what it then holds in memory."""

import json
import os
import subprocess
import sys
import time
from typing import NamedTuple

from bench.measure import NotAvailable
from bench.texts import ROOT

PROGRAM = """
import json, pathlib, sys, time
import encoder
enc = encoder.load(sys.argv[1], device="cpu")
loaded = time.time()
enc.posts(["a van hits pedestrians in Toronto"])
embedded = time.time()
status = dict(
    line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines()
)
megabytes = [int(status[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM")]
print(json.dumps([loaded, embedded, time.process_time(), *megabytes, "torch" in sys.modules,
                  enc.path]))
"""


class Start(NamedTuple):
    """One start: seconds to the loaded model, to the first embedding, of CPU; megabytes."""

    load: float
    first: float
    cpu: float
    resident: float
    peak: float
    torch: bool
    path: str


def fresh_start(model: str) -> Start:
    """Start a process, load the model and embed one post."""
    # Forbidden to keep compiled modules, Python would compile all of numba at every start.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", PROGRAM, model]
    began = time.time()
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise NotAvailable(f"a fresh process failed: {last}")
    loaded, embedded, *others = json.loads(done.stdout.splitlines()[-1])
    return Start(loaded - began, embedded - began, *others)


def fresh_starts(model: str, times: int) -> list[Start]:
    """Several starts after one that fills the caches of compiled code and of the disk."""
    fresh_start(model)
    return [fresh_start(model) for _ in range(times)]
