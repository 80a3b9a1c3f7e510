"""The worker's log: one escaped line a record, as text or JSON, with a rate limit."""

import json
import logging
import os
import sys
import time

from worker.config import LogConfig
from worker.errors import ConfigError
from worker.posts.times import rfc3339
from worker.text import escape_invisible

FAUST_LEVELS = {"CRIT": "CRITICAL"}  # Faust's name: Python's name
FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
MAX_PER_MINUTE = 60  # from one line of code
MINUTE_S = 60.0
AUDIT_LOGGER = "newsift.audit"  # No record of this logger is dropped.


def configure_logging(config: LogConfig, level: int | str | None, file: str | None = None) -> None:
    """One level for newsift, one for libraries."""
    handler = make_handler(JsonLine() if config.format == "json" else OneLine(FORMAT), file)
    handler.addFilter(is_logged)
    if isinstance(level, str):
        level = FAUST_LEVELS.get(level.upper(), level.upper())
    logging.basicConfig(handlers=[handler], level=level or "WARN", force=True)
    others = logging.root.level
    logging.getLogger("newsift").setLevel(min(logging.getLevelName(config.level.upper()), others))
    if others > logging.INFO:
        # In an outage it repeats one message many times a second; the worker logs it once.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def print_exit_reason(message: str, config: LogConfig) -> None:
    """Prints to standard error, wherever the log goes."""
    if config.format == "json":
        facts = {"name": "newsift", "levelname": "CRITICAL", "msg": message, "created": time.time()}
        print(JsonLine().format(logging.makeLogRecord(facts)), file=sys.stderr)  # noqa: T201
    else:
        print(f"newsift: {escape_invisible(message)}", file=sys.stderr)  # noqa: T201


def make_handler(form: logging.Formatter, file: str | None = None) -> logging.Handler:
    """A handler with a rate limit."""
    try:
        handler = logging.FileHandler(file, encoding="utf-8") if file else logging.StreamHandler()
    except OSError as error:
        raise ConfigError(
            f"--logfile: {file} cannot be written ({error.strerror}); give a file that can"
        ) from error
    handler.setFormatter(form)
    handler.addFilter(LogLimit())
    return handler


def is_logged(record: logging.LogRecord) -> bool:
    """Drops Faust's report of a crash: the exit has its own line."""
    quiet = record.name.startswith(("mode", "faust")) and record.exc_info
    return not quiet or is_debugging()


def is_debugging() -> bool:
    return os.environ.get("NEWSIFT_DEBUG") == "1"


class OneLine(logging.Formatter):
    """Escapes control characters, and hides tracebacks without NEWSIFT_DEBUG."""

    def format(self, record: logging.LogRecord) -> str:
        if is_debugging():
            return "\n".join(map(escape_invisible, super().format(record).split("\n")))
        record = logging.makeLogRecord(record.__dict__ | {"exc_info": None, "exc_text": None})
        return escape_invisible(super().format(record))


class JsonLine(logging.Formatter):
    """An ASCII JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": rfc3339(round(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if is_debugging() and record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class LogLimit(logging.Filter):
    """Passes a limited number of records a minute from each line of code."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[tuple[str, int], tuple[float, int]] = {}  # since when, how many

    def filter(self, record: logging.LogRecord) -> bool:
        """The first record after a pause says how many were dropped."""
        if record.name == AUDIT_LOGGER:
            return True
        place = record.pathname, record.lineno
        began, count = self._counts.get(place, (record.created, 0))
        if record.created - began >= MINUTE_S:
            if count > MAX_PER_MINUTE:
                record.msg = (
                    f"{record.getMessage()} ({count - MAX_PER_MINUTE} more were not logged)"
                )
                record.args = None
            began, count = record.created, 0
        self._counts[place] = began, count + 1
        return count < MAX_PER_MINUTE
