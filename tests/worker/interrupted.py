"""A command that a signal ends, however busy the machine is."""

import signal
import subprocess
import time

AGAIN_S, PATIENCE_S = 10.0, 120.0


def said_until_ended_by(number: signal.Signals, process: "subprocess.Popen[str]") -> str:
    """Its standard error up to the end.

    The signal is sent again: Python may lose one that comes just before it begins to read.
    """
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        process.send_signal(number)
        try:
            return process.communicate(timeout=AGAIN_S)[1]
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"it goes on after {number.name}")
