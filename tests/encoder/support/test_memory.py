"""Freed memory goes back to the system."""

import subprocess
import sys

import pytest

LARGE_BLOCKS = """
from threading import Event, Thread
import numpy as np
from resource import getpagesize
from encoder.support.memory import MIN_LARGE_BYTES, return_large_blocks

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * getpagesize()

def job(done, end):
    for _ in range(2):  # the second block would come from the thread's arena
        np.ones(MIN_LARGE_BYTES // 8)
    done.set()
    end.wait()

return_large_blocks()
before, end = resident(), Event()
for _ in range(8):
    done = Event()
    Thread(target=job, args=(done, end), daemon=True).start()
    done.wait()
print((resident() - before) // MIN_LARGE_BYTES)
"""


SMALL_BLOCKS = """
from resource import RUSAGE_THREAD, getpagesize, getrusage
from threading import Thread
import numpy as np
from encoder.support.memory import return_large_blocks

BYTES = 6 * 2**20

def job():
    for _ in range(3):
        np.ones(BYTES // 8)
        faults.append(getrusage(RUSAGE_THREAD).ru_minflt)

faults = []
return_large_blocks(2 * BYTES)
thread = Thread(target=job)
thread.start()
thread.join()
print((faults[2] - faults[1]) * getpagesize() / BYTES)
"""


HOLES = """
from resource import getpagesize
from encoder.support.memory import return_free_memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * getpagesize()

blocks = [bytearray(50_000) for _ in range(2_000)]
last = blocks[-1]  # above all the others, so that they cannot be cut off at the end
before = resident()
del blocks
held = before - resident()
return_free_memory()
print((before - resident() - held) // 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_what_is_free_below_a_block_in_use_is_returned() -> None:
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, check=True)
    assert int(done.stdout) > 50


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_threads_do_not_hold_the_large_blocks_that_they_freed() -> None:
    done = subprocess.run([sys.executable, "-c", LARGE_BLOCKS], capture_output=True, check=True)
    assert int(done.stdout) < 4


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_smaller_blocks_are_taken_again_without_page_faults() -> None:
    done = subprocess.run([sys.executable, "-c", SMALL_BLOCKS], capture_output=True, check=True)
    assert float(done.stdout) < 0.1
