"""The worker's process: put-off interrupts, an orderly end, and one by force where that fails."""

import os
import signal
import subprocess
import sys

import pytest

from newsift.cli.processes import end_group
from newsift.cli.signals import INTERRUPTS, defer_interrupts, interruptible


@pytest.mark.parametrize("kind", INTERRUPTS)
def test_an_interrupt_waits_until_what_must_not_break_is_done(kind: signal.Signals) -> None:
    done = []

    def work() -> None:
        with defer_interrupts():
            os.kill(os.getpid(), kind)
            done.append("the rest")

    before = signal.getsignal(kind)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["the rest"]
    assert signal.getsignal(kind) is before


@pytest.mark.parametrize("kind", INTERRUPTS)
def test_every_kind_of_interrupt_ends_the_block(kind: signal.Signals) -> None:
    done = []

    def work() -> None:
        with interruptible():
            os.kill(os.getpid(), kind)
            done.append("the rest")

    before = signal.getsignal(kind)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert not done
    assert signal.getsignal(kind) is before


@pytest.mark.parametrize(("heeds", "code"), [(True, -signal.SIGTERM), (False, -signal.SIGKILL)])
def test_a_process_is_ended_in_order_or_by_force_with_its_children(
    heeds: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsift.cli.processes.END_S", 0.2)
    deaf = "" if heeds else "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    child = "import time; time.sleep(600)"
    script = (
        f"import signal, subprocess, sys\n{deaf}\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "print(child.pid, flush=True)\nchild.wait()"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True
    )
    assert started.stdout is not None
    with started.stdout as message:
        line = message.readline()
        assert line.strip().isdigit()
        end_group(started)
        # The child holds the other end of this pipe: it closes when the last of them is gone.
        assert message.read() == b""
    assert started.returncode == code
