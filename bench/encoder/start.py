"""What a fresh process pays before its first embedding, and what it then holds in memory."""

import json
import os
import subprocess
import sys
import time

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


STARTED = (
    "process start to loaded model, s",
    "process start to first embedding, s",
    "CPU time of all threads until then, s",
    "resident memory then, MB",
    "peak memory, MB",
)

Start = tuple[float, float, float, float, float, bool, str]
"""One start: the figures of STARTED, whether torch was imported, and the path."""


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
    return (loaded - began, embedded - began, *others)
