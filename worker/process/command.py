"""The worker's process: command line, signals and exit code."""

import asyncio
import logging
import os
import signal
import sys
import threading
import traceback
from dataclasses import replace
from typing import IO, Any, ClassVar, NoReturn

import click
import faust
from aiokafka.errors import KafkaError
from faust.cli import worker as faust_cli
from faust.cli.base import now_builtin_worker_options, option
from faust.cli.params import TCPPort

from encoder.errors import NewsiftError
from worker import log
from worker.config import Config
from worker.errors import RunError
from worker.kafka.settings import broker_error
from worker.text import escape_invisible

EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130
SHUTDOWN_SLACK_S = 2.0
# Of the banner: Faust's features that this worker does not use.
HIDDEN_ROWS = (" store  ", " datadir  ", " appdir  ", "   web  ")


class UsageError(click.ClickException):
    """One line in the place of Faust's three."""

    exit_code = NewsiftError.exit_code

    def show(self, file: IO[Any] | None = None) -> None:
        message = f"{self.format_message().rstrip('.')}; see 'faust worker --help'"
        print(f"newsift: {escape_invisible(message)}", file=file or sys.stderr)


class worker(faust_cli.worker):  # type: ignore[misc]
    """Start the worker."""

    redirect_stdouts = False
    options: ClassVar = [  # Faust's others are about its own web server
        option("--web-port", "-p", type=TCPPort(), help="Port of the web server."),
        option("--web-bind", "-b", help="Address on which the web server listens."),
        *now_builtin_worker_options,
    ]

    @classmethod
    def as_click_command(cls) -> click.Command:
        command: click.Command = super().as_click_command()
        parse = command.parse_args

        def parse_args(ctx: click.Context, args: list[str]) -> list[str]:
            try:
                return parse(ctx, args)
            except click.UsageError as error:
                raise UsageError(error.format_message()) from error

        command.parse_args = parse_args  # type: ignore[method-assign]
        return command

    def _init_worker_options(
        self, *args: Any, web_port: int | None, web_bind: str | None, **options: Any
    ) -> None:
        """Applies --web-port and --web-bind to the worker's own web server."""
        web_options = {"port": web_port, "host": web_bind}
        web = {name: value for name, value in web_options.items() if value is not None}
        self.app.config = replace(self.app.config, web=replace(self.app.config.web, **web))

    def banner(self, worker: Any) -> str:
        lines: list[str] = super().banner(worker).splitlines()
        return "\n".join(line for line in lines if not any(row in line for row in HIDDEN_ROWS))


class Worker(faust.Worker):  # type: ignore[misc]
    """Faust's worker, which ends with one line and never hangs."""

    def __init__(self, app: Any, *services: Any, **options: Any) -> None:
        options |= {"redirect_stdouts": False, "override_logging": False}
        super().__init__(app, *services, **options)
        self.spinner = None
        self._config: Config = app.config
        self._exit_error: BaseException | None = None
        self._leaving = asyncio.Event()
        app.leave = self.leave

    def leave(self, error: BaseException | None = None) -> None:
        """Begins to stop; only the first error is reported."""
        if not self._leaving.is_set():
            self._exit_error = error
            self._leaving.set()

    def execute_from_commandline(self) -> NoReturn:
        try:
            self.app.check()
            log.configure_logging(self._config.log, self.loglevel, self.logfile)
            self.loop.run_until_complete(self._live())
        except BaseException as error:  # noqa: BLE001 - there is no other way out
            self.leave(error)
        end_process(self._exit_error, self._config)

    def install_signal_handlers(self) -> None:
        self.loop.add_signal_handler(signal.SIGTERM, self.leave)
        self.loop.add_signal_handler(signal.SIGINT, self.leave, KeyboardInterrupt())

    async def on_execute(self) -> None:
        """Print nothing on standard output: the log has it."""

    async def _live(self) -> None:
        """Runs until there is a reason to stop; then stops within the time limit."""
        starting = asyncio.ensure_future(self.start())
        leaving = asyncio.ensure_future(self._leaving.wait())
        await asyncio.wait({starting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            self.leave(
                starting.exception() or self.crash_reason or RunError("it stopped without an error")
            )
        in_time = self._config.stream.shutdown_s + SHUTDOWN_SLACK_S
        late = RunError(
            f"the worker did not stop within {in_time:g} s (stream.shutdown_s); it is ended"
        )
        overdue = threading.Timer(in_time, end_process, (self._exit_error or late, self._config))
        overdue.daemon = True
        overdue.start()
        await self.stop()
        overdue.cancel()


def end_process(error: BaseException | None, config: Config) -> NoReturn:
    """Prints the reason in one line and ends the process, whatever its threads do."""
    code = EXIT_OK
    if error is not None:
        code, message = exit_status(error, config)
        if log.is_debugging():
            for text in "".join(traceback.format_exception(error)).splitlines():
                print(escape_invisible(text), file=sys.stderr)  # noqa: T201
        log.print_exit_reason(message, config.log)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def exit_status(error: BaseException, config: Config) -> tuple[int, str]:
    """The exit code of an error, and its message in one line."""
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED, "interrupted"
    if isinstance(error, KafkaError):
        error = broker_error(error, config)  # which names the broker and the remedy
    message = " ".join(str(error).split())
    if isinstance(error, NewsiftError):
        return error.exit_code, message
    return EXIT_FAILED, f"{type(error).__name__}: {message}"
