"""The Faust app: it brings the agent and the stream to life, and owns the way out."""

from collections.abc import AsyncIterable, Callable
from typing import Any

import faust
from faust.app import BootStrategy
from mode import CrashingSupervisor

from encoder.errors import NewsiftError
from worker.config import APP_ID, Config, load_config
from worker.service.process import Worker
from worker.stream.flow import Stream
from worker.watch.metrics import Metrics


class Boot(BootStrategy):  # type: ignore[misc]
    """Of Faust's own services the agents alone: no consumer, no producer, no tables, no web."""

    enable_kafka = False
    enable_web = False
    enable_sensors = False


class App(faust.App):  # type: ignore[misc]
    """A Faust app without topics and folders of its own."""

    BootStrategy = Boot
    config: Config
    refused: NewsiftError | None
    leave: Callable[[BaseException], None]  # ends the process with an error; the worker's

    async def on_first_start(self) -> None:
        """Make no folder: nothing is kept on disk."""

    async def on_start(self) -> None:
        """Let tickets through, which Faust else does once its own consumer has partitions."""
        self.finalize()
        self.flow_control.resume()

    def worker_init_post_autodiscover(self) -> None:
        """Make no web server: the worker has its own."""
        self.on_worker_init.send()


class Service(faust.Service):  # type: ignore[misc]
    """The stream as a service that starts and stops with the app."""

    def __init__(self, app: App, config: Config, tickets: Any, **options: Any) -> None:
        self._app, self._config, self._tickets = app, config, tickets
        self._stream: Stream | None = None
        super().__init__(**options)

    async def on_start(self) -> None:
        """Make the stream, on the loop that will run it."""
        self._stream = Stream(self._config, Metrics(), self._ticket)

    @faust.Service.task  # type: ignore[untyped-decorator]
    async def run_stream(self) -> None:
        """Run the stream; its failure ends the process."""
        assert self._stream is not None
        try:
            await self._stream.run()
        except Exception as error:  # noqa: BLE001 - the way out is told of everything
            self._stream.fail(error)
            self._app.leave(first_of(error))

    async def on_stop(self) -> None:
        """Finish what is in flight and leave the group."""
        if self._stream is not None:
            await self._stream.stop()

    async def sift(self) -> None:
        """What one ticket stands for: the work on one batch."""
        assert self._stream is not None
        try:
            await self._stream.sift()
        except Exception as error:  # noqa: BLE001 - Faust would tell it in a traceback
            self._stream.fail(error)

    async def _ticket(self) -> None:
        """Tell the agent that a batch is in the ledger.

        A ticket names no batch: whoever gets one takes the oldest. So it does no harm that Faust
        clears a channel's queue when it likes, and drops what is put before anybody listens: the
        stream tells of a waiting batch again.
        """
        await self._tickets.put(True)


def first_of(error: BaseException) -> BaseException:
    """The first error of a group, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def make_app() -> App:
    """The app; a configuration that is refused is told when the worker starts."""
    config, refused = Config(), None
    try:
        config = load_config()
    except NewsiftError as error:
        refused = error
    app = App(
        APP_ID,
        broker=[f"kafka://{part.strip()}" for part in config.kafka.bootstrap_servers.split(",")],
        store="memory://",
        autodiscover=False,
        topic_disable_leader=True,
        web_enabled=False,
        Worker=Worker,
    )
    app.config, app.refused = config, refused
    tickets = app.channel()
    service = app.service(Service(app, config, tickets))

    @app.agent(tickets, concurrency=config.stream.in_flight, supervisor_strategy=CrashingSupervisor)  # type: ignore[untyped-decorator]
    async def sift(stream: AsyncIterable[bool]) -> None:
        """Work on one batch for each ticket."""
        async for _ in stream:
            await service.sift()

    return app
