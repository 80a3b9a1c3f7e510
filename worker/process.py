"""The process of the worker: its signals, its log, and the one way out, with its exit code."""

import asyncio
import logging
import os
import signal
import sys
import threading
import traceback
from typing import Any, NoReturn

import faust

from encoder.errors import NewsiftError
from worker.config import Config
from worker.errors import RunError
from worker.kafka import broker_error

DONE, FAILED, INTERRUPTED = 0, 1, 130
SLACK_S = 2.0  # beyond the time for a shutdown, before the process is ended as it is
OURS = ("newsift", "worker")
OTHERS = ("worker.service", "worker.process")  # where Faust's services log, by our modules' names
FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class Worker(faust.Worker):  # type: ignore[misc]
    """Faust's worker but for its way out: never with a traceback, in silence, or not at all."""

    def __init__(self, app: Any, *services: Any, **options: Any) -> None:
        options |= {"redirect_stdouts": False, "override_logging": False}
        super().__init__(app, *services, **options)
        self.spinner = None
        app.conf.web_enabled = False  # the command line turns it on
        self._config: Config = app.config
        self._refused: NewsiftError | None = app.refused
        self._why: BaseException | None = None
        self._leaving = asyncio.Event()
        app.leave = self.leave

    def leave(self, error: BaseException | None = None) -> None:
        """Begin to leave; the first reason is the one that is told."""
        if not self._leaving.is_set():
            self._why = error
            self._leaving.set()

    def execute_from_commandline(self) -> NoReturn:
        """Run until there is a reason to leave, leave in order, and end the process."""
        if self._refused is not None:
            end(self._refused, self._config)
        try:
            self.loop.run_until_complete(self._live())
        except BaseException as error:  # noqa: BLE001 - there is no other way out
            self.leave(error)
        end(self._why, self._config)

    def install_signal_handlers(self) -> None:
        """Leave on SIGTERM and on Ctrl-C."""
        self.loop.add_signal_handler(signal.SIGTERM, self.leave)
        self.loop.add_signal_handler(signal.SIGINT, self.leave, KeyboardInterrupt())

    async def on_execute(self) -> None:
        """Set up the log, just before anything is started."""
        set_up_log(self._config.log.level, self.loglevel)

    async def _live(self) -> None:
        starting = asyncio.ensure_future(self.start())
        leaving = asyncio.ensure_future(self._leaving.wait())
        await asyncio.wait({starting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done() and not starting.cancelled():
            self.leave(starting.exception() or self.crash_reason or RunError("it just stopped"))
        in_time = self._config.stream.shutdown_s + SLACK_S
        overdue = threading.Timer(in_time, end, (self._why or late(in_time), self._config))
        overdue.daemon = True
        overdue.start()
        await self.stop()
        overdue.cancel()


def late(seconds: float) -> RunError:
    """What to say of a shutdown that did not come to its end."""
    return RunError(
        f"the worker did not stop within {seconds:g} s (stream.shutdown_s); it is ended"
    )


def end(error: BaseException | None, config: Config) -> NoReturn:
    """Say why in one line and end the process, whatever its threads are doing."""
    code = DONE
    if error is not None:
        told = explained(error, config)
        code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else FAILED
        if isinstance(told, NewsiftError):
            code = told.exit_code
        if os.environ.get("NEWSIFT_DEBUG") == "1":
            traceback.print_exception(error)
        print(f"newsift: {line(told)}", file=sys.stderr)  # noqa: T201 - the log may be elsewhere
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def explained(error: BaseException, config: Config) -> BaseException:
    """A client's error as one of ours, which names the broker and the remedy."""
    from aiokafka.errors import KafkaError

    return broker_error(error, config) if isinstance(error, KafkaError) else error


def line(error: BaseException) -> str:
    """What to say of an error, on one line."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    said = " ".join(str(error).split())
    return said if isinstance(error, NewsiftError) else f"{type(error).__name__}: {said}"


def set_up_log(ours: str, theirs: int | str | None) -> None:
    """Log to stderr, a line a record: our words from one level on, those of others from another."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine(FORMAT))
    handler.addFilter(told_by_us)
    logging.basicConfig(handlers=[handler], level=theirs or "WARN", force=True)
    for name in OURS:
        logger = logging.getLogger(name)
        logger.setLevel(min(logging.getLevelName(ours.upper()), logging.root.level))
    for name in OTHERS:
        logging.getLogger(name).setLevel(logging.root.level)
    if logging.root.level > logging.INFO:
        # In an outage it says the same many times a second; the worker says it once.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def told_by_us(record: logging.LogRecord) -> bool:
    """Whether to log a record: not what Faust says of a crash, which is told at the end."""
    quiet = record.name.startswith(("mode", "faust")) and record.exc_info
    return not quiet or os.environ.get("NEWSIFT_DEBUG") == "1"


class OneLine(logging.Formatter):
    """A formatter that leaves tracebacks out, unless NEWSIFT_DEBUG asks for them."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        if os.environ.get("NEWSIFT_DEBUG") == "1":
            return super().format(record)
        record = logging.makeLogRecord(record.__dict__ | {"exc_info": None, "exc_text": None})
        return " ".join(super().format(record).split("\n"))
