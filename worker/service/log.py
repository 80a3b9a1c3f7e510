"""The worker's log: a line a record, escaped, as text or as JSON, and never a flood."""

import json
import logging
import os
import sys
import time

from worker.config import LogConfig
from worker.errors import ConfigError
from worker.posts.times import rfc3339
from worker.visible import escaped

LEVELS = {"CRIT": "CRITICAL"}  # as Faust's command line has it, and as the log has it
FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
MOST = 60  # records a minute from one line of the code
MINUTE = 60.0
AUDIT = "newsift.audit"  # what people did: each of its lines is logged


def set_up(config: LogConfig, level: int | str | None, file: str | None = None) -> None:
    """Log to stderr or to a file: our words from one level on, those of others from another."""
    handler = sparing_handler(formatter(config), file)
    handler.addFilter(told_by_us)
    if isinstance(level, str):
        level = LEVELS.get(level.upper(), level.upper())
    logging.basicConfig(handlers=[handler], level=level or "WARN", force=True)
    others = logging.root.level
    logging.getLogger("newsift").setLevel(min(logging.getLevelName(config.level.upper()), others))
    if others > logging.INFO:
        # In an outage it says the same many times a second; the worker says it once.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def last_line(said: str, config: LogConfig) -> None:
    """Say on standard error why the process ends, wherever the log goes."""
    if config.format == "json":
        facts = {"name": "newsift", "levelname": "CRITICAL", "msg": said, "created": time.time()}
        print(JsonLine().format(logging.makeLogRecord(facts)), file=sys.stderr)  # noqa: T201
    else:
        print(f"newsift: {escaped(said)}", file=sys.stderr)  # noqa: T201


def formatter(config: LogConfig) -> logging.Formatter:
    """What makes a line of a record."""
    return JsonLine() if config.format == "json" else OneLine(FORMAT)


def sparing_handler(form: logging.Formatter, file: str | None = None) -> logging.Handler:
    """Where records go: standard error or a file, a line each, and so many a minute."""
    try:
        handler = logging.FileHandler(file, encoding="utf-8") if file else logging.StreamHandler()
    except OSError as error:
        raise ConfigError(
            f"--logfile: {file} cannot be written ({error.strerror}); give a file that can"
        ) from error
    handler.setFormatter(form)
    handler.addFilter(Sparing())
    return handler


def told_by_us(record: logging.LogRecord) -> bool:
    """Whether to log a record: not what Faust says of a crash, which is told at the end."""
    quiet = record.name.startswith(("mode", "faust")) and record.exc_info
    return not quiet or debugging()


def debugging() -> bool:
    """Whether tracebacks are shown."""
    return os.environ.get("NEWSIFT_DEBUG") == "1"


class OneLine(logging.Formatter):
    """A formatter that escapes what steers, and leaves out tracebacks but for NEWSIFT_DEBUG."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        if debugging():
            return "\n".join(map(escaped, super().format(record).split("\n")))
        record = logging.makeLogRecord(record.__dict__ | {"exc_info": None, "exc_text": None})
        return escaped(super().format(record))


class JsonLine(logging.Formatter):
    """A formatter that makes one JSON object of a record, in ASCII, so that nothing steers."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        said = {
            "time": rfc3339(round(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if debugging() and record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said)


class Sparing(logging.Filter):
    """Lets so many records a minute through from one line of the code, and counts the rest."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[tuple[str, int], tuple[float, int]] = {}  # since when, how many

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a record; the first after a pause says how many were left out."""
        if record.name == AUDIT:
            return True
        place = record.pathname, record.lineno
        began, count = self._told.get(place, (record.created, 0))
        if record.created - began >= MINUTE:
            if count > MOST:
                record.msg = f"{record.getMessage()} ({count - MOST} more were not logged)"
                record.args = None
            began, count = record.created, 0
        self._told[place] = began, count + 1
        return count < MOST
