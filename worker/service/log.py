"""The worker's log: a line a record on standard error, escaped, and never a flood."""

import logging
import os

from worker.visible import escaped

OURS = ("newsift", "worker")
OTHERS = (
    "worker.service.app",
    "worker.service.process",
)  # where Faust's services log
CRIT = {"crit": "critical"}  # as Faust's command line has it, and as the log has it
FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
MOST = 60  # records a minute from one line of the code
MINUTE = 60.0


def set_up_log(ours: str, theirs: int | str | None) -> None:
    """Log to stderr, a line a record: our words from one level on, those of others from another."""
    handler = sparing_handler(FORMAT)
    handler.addFilter(told_by_us)
    if isinstance(theirs, str):
        theirs = CRIT.get(theirs.lower(), theirs).upper()
    logging.basicConfig(handlers=[handler], level=theirs or "WARN", force=True)
    for name in OURS:
        logger = logging.getLogger(name)
        logger.setLevel(min(logging.getLevelName(ours.upper()), logging.root.level))
    for name in OTHERS:
        logging.getLogger(name).setLevel(logging.root.level)
    if logging.root.level > logging.INFO:
        # In an outage it says the same many times a second; the worker says it once.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def sparing_handler(form: str) -> logging.Handler:
    """Where records go: standard error, a line each, escaped, and so many a minute."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine(form))
    handler.addFilter(Sparing())
    return handler


def told_by_us(record: logging.LogRecord) -> bool:
    """Whether to log a record: not what Faust says of a crash, which is told at the end."""
    quiet = record.name.startswith(("mode", "faust")) and record.exc_info
    return not quiet or os.environ.get("NEWSIFT_DEBUG") == "1"


class OneLine(logging.Formatter):
    """A formatter that escapes what steers, and leaves out tracebacks but for NEWSIFT_DEBUG."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        if os.environ.get("NEWSIFT_DEBUG") == "1":
            return "\n".join(map(escaped, super().format(record).split("\n")))
        record = logging.makeLogRecord(record.__dict__ | {"exc_info": None, "exc_text": None})
        return escaped(super().format(record))


class Sparing(logging.Filter):
    """Lets so many records a minute through from one line of the code, and counts the rest."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[tuple[str, int], tuple[float, int]] = {}  # since when, how many

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a record; the first after a pause says how many were left out."""
        place = record.pathname, record.lineno
        began, count = self._told.get(place, (record.created, 0))
        if record.created - began >= MINUTE:
            if count > MOST:
                record.msg = f"{record.getMessage()} ({count - MOST} more were not logged)"
                record.args = None
            began, count = record.created, 0
        self._told[place] = began, count + 1
        return count < MOST
