"""Fixtures shared by all tests."""

import gc
import io
import logging
import os
import sys
from collections.abc import Iterator
from itertools import chain, groupby, zip_longest
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from newsift.cli import run
from tests.worker.fake_command import Command, Outcome

# The same examples in every run, so that a change is judged and not the dice; NEWSIFT_EXPLORE=1
# draws new ones. How long they take says something of the machine alone.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", settings.get_profile("explore"), derandomize=True)
settings.register_profile("fast", settings.get_profile("steady"), max_examples=20)  # test-fast
settings.load_profile("explore" if os.environ.get("NEWSIFT_EXPLORE") else "steady")

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("NEWSIFT_SHARED", Path(__file__).parents[2] / "shared"))


# Folders whose tests start processes and wait for them, and leave the cores to others meanwhile.
WAITING = (
    "broker", "faults", "hostile", "newsift/cli", "newsift/desk", "newsift/operations",
    "worker/metrics", "worker/process",
)  # fmt: skip
SLOW = ("faults", "hostile")  # folders all of whose tests are slow


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One test more than there are cores: many wait."""
    return min(4, (os.cpu_count() or 1) + 1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Take files that wait and files that compute in turn, so that none waits alone at the end."""
    for item in items:
        if _is_in(item.path, SLOW):
            item.add_marker(pytest.mark.slow)
    files = [list(group) for _, group in groupby(items, key=lambda item: item.path)]
    waiting = [file for file in files if _is_in(file[0].path, WAITING)]
    computing = [file for file in files if not _is_in(file[0].path, WAITING)]
    items[:] = chain.from_iterable(
        chain.from_iterable(zip_longest(waiting, computing, fillvalue=[]))
    )


def _is_in(path: Path, folders: tuple[str, ...]) -> bool:
    return path.is_relative_to(HERE) and str(path.relative_to(HERE)).startswith(folders)


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of every later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def log_that_ends_with_its_test() -> Iterator[None]:
    """Take away the log that a command has set up: its standard error ends with the test."""
    levels = {name: logging.getLogger(name).level for name in ("root", "newsift", "aiokafka")}
    yield
    for handler in list(logging.root.handlers):
        if type(handler) in (logging.StreamHandler, logging.FileHandler):  # pytest's are others
            logging.root.removeHandler(handler)
            handler.close()
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture(autouse=True)
def one_thread_of_torch() -> Iterator[None]:
    """Take back the threads that a test gave torch: in later ones they would wait on their feet."""
    yield
    if (torch := sys.modules.get("torch")) is not None and torch.get_num_threads() > 1:
        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real public text beside the checkout; without it the test is skipped."""
    if not (SHARED / "data").is_dir():
        pytest.skip("no ../shared/data beside this clone: real posts are not tested")
    return SHARED


@pytest.fixture
def newsift(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Call the command line inside this process, with bytes as its standard input."""

    def call(*args: object, stdin: bytes = b"") -> Outcome:
        raw = io.BufferedReader(io.BytesIO(stdin))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw, encoding="utf-8"))
        code = run([str(arg) for arg in args])
        return Outcome(code, *capsys.readouterr())

    return call
