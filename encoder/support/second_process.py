"""The first start on a machine: two processes compile, as numba keeps to one thread of each."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from encoder.support.jit_cache import FOLDER
from encoder.support.threads import available_cpus

ROOT = Path(__file__).parents[2]
LONGEST_S = 300.0  # that the second process may take beyond the first
log = logging.getLogger("newsift.encoder")


@contextmanager
def second_process(module: str, *arguments: str) -> Iterator[bool]:
    """A block beside which a module runs and fills the same cache, where that is still empty.

    The block gets whether the cache is empty. If the module fails, nothing is reported: what it
    should have compiled is compiled here, later.
    """
    empty = FOLDER is not None and next(FOLDER.glob("*/*.nbi"), None) is None
    if FOLDER is None or not empty:
        yield False
        return
    tell("compiling for this CPU, once for this version: some 10 s")
    if available_cpus() == 1:
        yield True
        return
    paths = filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    here = {"NEWSIFT_CACHE": str(FOLDER.parent), "PYTHONPATH": os.pathsep.join(paths)}
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-P", "-m", module, *arguments]  # not from the current folder
    with subprocess.Popen(
        command, env=os.environ | here, stdin=quiet, stdout=quiet, stderr=quiet
    ) as other:
        try:
            yield True
            with suppress(subprocess.TimeoutExpired):
                other.wait(LONGEST_S)
        finally:
            other.kill()


def tell(line: str) -> None:
    """Say what takes so long: in the log, or on a terminal that shows no log."""
    if log.isEnabledFor(logging.INFO):
        log.info(line)
    elif sys.stderr.isatty():
        sys.stderr.write(f"newsift: {line}\n")
