"""The Faust app: the agent that processes batches, and the services around it."""

import asyncio
import logging
from collections.abc import AsyncIterable, Callable
from typing import Any

import faust
from aiokafka.errors import KafkaError
from faust.app import BootStrategy
from faust.types import TopicT
from mode import CrashingSupervisor

from encoder.errors import NewsiftError
from encoder.support.memory import return_large_blocks
from worker.config import APP_ID, Config
from worker.config.load import load_config
from worker.errors import ConfigError
from worker.process.command import Worker
from worker.process.prepare import WorkerParts
from worker.stream.flow import Flow
from worker.stream.ledger import Batch, Ledger
from worker.stream.partitions import Backlog
from worker.stream.watchdog import Observation, Watchdog

WATCH_INTERVAL_S = 1.0
FREE_BYTES = 2**25  # of each thread: the next batch takes the memory of the last one's arrays
log = logging.getLogger("newsift.stream")


class Boot(BootStrategy):  # type: ignore[misc]
    """Starts only the agents: no consumer, producer, tables or web server."""

    enable_kafka = False
    enable_web = False
    enable_sensors = False


class App(faust.App):  # type: ignore[misc]
    """A Faust app without topics and folders of its own."""

    BootStrategy = Boot
    config: Config
    refused: NewsiftError | None
    leave: Callable[[BaseException], None]  # ends the process with an error; the worker's

    def check(self) -> None:
        """Raises for a refused configuration, and for agents that would never receive anything."""
        if self.refused is not None:
            raise self.refused
        for agent in self.agents.values():
            if isinstance(agent.channel, TopicT):
                raise ConfigError(
                    f"agent {agent.name}: reads the topic {agent.channel.get_topic_name()} through "
                    "Faust's own consumer, which this app does not start; give it a faust.App of "
                    "its own (docs/faust.md)"
                )

    async def on_first_start(self) -> None:
        """Create no folder: nothing is stored on disk."""

    async def on_start(self) -> None:
        """Faust opens local channels only when its own consumer has partitions."""
        self.finalize()
        self.flow_control.resume()

    def worker_init_post_autodiscover(self) -> None:
        """Start no web server: the worker has its own."""
        self.on_worker_init.send()


class Batches(faust.Channel):  # type: ignore[misc]
    """The agent's channel: the oldest waiting batch of the ledger.

    Faust's own queue stays empty: Faust's rebalance clears queues, and a put without a subscriber
    is dropped. A batch waits in the ledger until the agent takes it.
    """

    def __init__(self, app: App, ledger: Ledger) -> None:
        super().__init__(app, is_iterator=True)
        self._ledger = ledger

    def clone(self, **_: Any) -> "Batches":
        """All instances of the agent share one ledger."""
        return self

    def get_topic_name(self) -> str:
        """The topic of posts, for `faust agents`."""
        return str(self.app.config.topics.posts)

    async def get(self, *, timeout: float | None = None) -> Batch:
        async with asyncio.timeout(timeout):
            return await self._ledger.next()

    async def __anext__(self) -> Batch:
        return await self.get()


class StreamService(faust.Service):  # type: ignore[misc]
    """Reads, commits, follows the seeds and watches, beside the agent."""

    def __init__(self, app: App, ledger: Ledger, **options: Any) -> None:
        self._app, self._ledger = app, ledger
        self._parts: WorkerParts | None = None
        self._failed = self._away = False
        super().__init__(**options)

    @property
    def flow(self) -> Flow:
        """Prepared before the first batch."""
        assert self._parts is not None
        return self._parts.flow

    @faust.Service.task  # type: ignore[untyped-decorator]
    async def run(self) -> None:
        """A failure ends the process."""
        try:
            self._parts = parts = WorkerParts(self._app.config, self._ledger, self.fail)
            await parts.start()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(parts.ingest.read())
                tasks.create_task(parts.control.follow(parts.make_seeds))
                tasks.create_task(parts.positions.keep_committing())
                tasks.create_task(self._watch(parts))
        except Exception as error:  # noqa: BLE001 - the exit code covers every error
            self.fail(error)

    async def on_stop(self) -> None:
        """Finishes what is in flight and leaves the group."""
        if self._parts is not None:
            await self._parts.stop(settle=not self._failed)

    def fail(self, error: Exception) -> None:
        """Ends the process; nothing more is committed."""
        self._failed = True
        self._app.leave(first_error(error))

    async def _watch(self, parts: WorkerParts) -> None:
        """Measures lag and seeds periodically, and ends a worker that makes no progress."""
        dog = Watchdog(self._app.config.stream.stall_s)
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            backlogs = await self._backlogs(parts)
            for partition, backlog in backlogs.items():
                parts.metrics.lag(partition, backlog.lag)
            parts.metrics.in_flight(len(self._ledger))
            parts.control.report_metrics()
            flow = parts.flow
            dog.observe(Observation(backlogs, parts.paused, flow.finished, flow.portions_read))

    async def _backlogs(self, parts: WorkerParts) -> dict[int, Backlog]:
        """The backlog of each partition; empty if the broker does not answer."""
        try:
            async with asyncio.timeout(self._app.config.kafka.request_timeout_s):
                backlogs = await parts.positions.backlogs()
        except (KafkaError, TimeoutError) as error:
            if not self._away:
                log.warning("the broker does not answer (%s): waiting", type(error).__name__)
            self._away = True
            return {}
        if self._away:
            log.info("the broker answers again")
        self._away = False
        return backlogs


def first_error(error: BaseException) -> BaseException:
    """The first error of an exception group, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def make_app() -> App:
    """A refused configuration is reported when the worker starts."""
    return_large_blocks(most_free=FREE_BYTES)
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
    ledger = Ledger(config.stream.in_flight)
    stream = app.service(StreamService(app, ledger))

    @app.agent(  # type: ignore[untyped-decorator]
        Batches(app, ledger),
        name="sift",
        concurrency=config.stream.in_flight,
        supervisor_strategy=CrashingSupervisor,
    )
    async def sift(batches: AsyncIterable[Batch]) -> None:
        """Match batches of posts with the seeds and deliver the records."""
        try:
            async for batch in batches:
                outcome = await stream.flow.match(batch)  # decode → encode → match, in a thread
                await stream.flow.deliver(batch, outcome)  # until the broker has acknowledged it
                stream.flow.finish(batch, outcome)  # from here on it may be committed
        except Exception as error:  # noqa: BLE001 - Faust would log a traceback and go on
            stream.fail(error)

    return app
