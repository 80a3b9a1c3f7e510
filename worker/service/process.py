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
from faust.types._env import WEB_PORT

from encoder.errors import NewsiftError
from worker.config import Config
from worker.errors import RunError
from worker.kafka.settings import broker_error
from worker.service.log import set_up_log
from worker.visible import escaped

DONE, FAILED, INTERRUPTED = 0, 1, 130
SLACK_S = 2.0  # beyond the time for a shutdown, before the process is ended as it is

log = logging.getLogger("newsift.process")


class Worker(faust.Worker):  # type: ignore[misc]
    """Faust's worker but for its way out: never with a traceback, in silence, or not at all."""

    def __init__(self, app: Any, *services: Any, **options: Any) -> None:
        options |= {"redirect_stdouts": False, "override_logging": False}
        super().__init__(app, *services, **options)
        self.spinner = None
        app.conf.web_enabled = False  # the command line turns it on
        self._ignored = ignored_options(app.conf.web_port, self.logfile)
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
        for told in self._ignored:
            log.warning("%s", told)

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
            told_whole = "".join(traceback.format_exception(error)).split("\n")
            print("\n".join(map(escaped, told_whole)), file=sys.stderr)  # noqa: T201
        print(f"newsift: {escaped(line(told))}", file=sys.stderr)  # noqa: T201 - the log may be elsewhere
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


def ignored_options(web_port: int, logfile: object) -> list[str]:
    """What to say of options of Faust's command line that this worker does not follow."""
    told = []
    if web_port != WEB_PORT:
        told.append(f"--web-port {web_port} is not followed; set web.port or NEWSIFT_WEB__PORT")
    if logfile:
        told.append(f"--logfile {logfile} is not followed; the log goes to standard error")
    return told
