"""The worker's log: a line a record, nothing that steers, no flood, at the level asked for."""

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from worker.service.log import MINUTE, MOST, OneLine, Sparing, set_up_log


@pytest.fixture
def logs() -> Iterator[None]:
    """The logging of this process, put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    ours = {name: logging.getLogger(name) for name in ("newsift", "worker", "aiokafka")}
    levels = {name: logger.level for name, logger in ours.items()}
    yield
    root.handlers = handlers
    root.setLevel(level)
    for name, logger in ours.items():
        logger.setLevel(levels[name])


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize(
    ("asked", "root", "newsift"),
    [
        ("info", logging.INFO, logging.INFO),
        ("INFO", logging.INFO, logging.INFO),
        ("warn", logging.WARNING, logging.WARNING),
        ("Crit", logging.CRITICAL, logging.WARNING),
        (logging.DEBUG, logging.DEBUG, logging.DEBUG),
        (None, logging.WARNING, logging.WARNING),
    ],
)
def test_every_level_of_the_command_line_is_known(
    asked: int | str | None, root: int, newsift: int
) -> None:
    set_up_log("warning", asked)
    assert logging.getLogger().level == root
    assert logging.getLogger("newsift").level == newsift


def record(said: str, at: float = 0.0, line: int = 1) -> logging.LogRecord:
    made = logging.LogRecord("newsift.x", logging.INFO, __file__, line, said, None, None)
    made.created = at
    return made


@pytest.mark.parametrize("debug", ["0", "1"])
def test_a_record_steers_nothing(debug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_DEBUG", debug)
    told = OneLine("%(message)s").format(record("seed \x1b]0;x\x07\u202e\x9b\r refused"))
    assert told == "seed \\x1b]0;x\\x07\\u202e\\x9b  refused"


def test_one_place_cannot_flood_the_log_and_others_go_on() -> None:
    spare = Sparing()
    assert sum(spare.filter(record("again", at=n / 1000)) for n in range(1000)) == MOST
    assert spare.filter(record("another", at=1, line=2))
    later = record("again", at=MINUTE + 1)
    assert spare.filter(later)
    assert later.getMessage() == f"again ({1000 - MOST} more were not logged)"
    assert spare.filter(record("again", at=2 * MINUTE + 2))


def test_options_that_are_not_followed_are_named() -> None:
    code = "from worker.process import ignored_options as o; print(*o(6066, None), *o(1, 'f'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("--web-port 1 is not followed; set web.port")
    assert "--logfile f is not followed" in done.stdout
