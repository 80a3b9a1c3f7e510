"""The stream: batches from the ledger through the pipeline to the output, then their commit."""

import asyncio
import gc
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import monotonic, perf_counter

import numpy as np
import numpy.typing as npt
from aiokafka import ConsumerRecord
from aiokafka.errors import KafkaError

import encoder
from encoder.encoder import Encoder
from worker import crashpoint
from worker.config import Config
from worker.kafka.consumers import control_consumer, posts_consumer
from worker.kafka.settings import aiokafka_settings
from worker.kafka.topics import ensure_topics, refuse_unfit
from worker.match.assembly import assembled
from worker.match.pipeline import Outcome, Pipeline
from worker.match.records import Record, to_dead_letter, without_input_headers
from worker.posts.read import Reason
from worker.posts.times import rfc3339
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedBook, SeedSet
from worker.stream.backlog import Backlog
from worker.stream.control import Control
from worker.stream.delivery import Delivery
from worker.stream.ingest import BatchSize, Ingest
from worker.stream.ledger import Batch, Ledger
from worker.stream.producer import KafkaProducer, Letter
from worker.stream.watchdog import Sight, Watchdog
from worker.watch.metrics import Metrics
from worker.watch.web import State, Web

LOOK_S = 1.0
LEAVE_S = 2.0  # of the time for a shutdown, once for the commit and once for leaving
SIFTING = min(2, os.cpu_count() or 1)  # batches at a time: while one is in the kernel, the next
SWITCH_S = 0.001  # the event loop waits so long, at most, for a thread that runs Python
log = logging.getLogger("newsift.stream")


class Stream:
    """The worker from its start to its end; Faust's agent calls `sift` for each ticket."""

    def __init__(
        self, config: Config, metrics: Metrics, ticket: Callable[[], Awaitable[None]]
    ) -> None:
        self._config, self._metrics = config, metrics
        self._ticket = ticket
        self._ledger = Ledger(config.stream.in_flight)
        self._web = Web(config.web, metrics, self._state)
        self._control = Control(
            lambda: control_consumer(config), config.topics.seeds, metrics, config.limits,
            lambda: refuse_unfit(config), self._control_holds,
        )  # fmt: skip
        self._delivery = Delivery(
            lambda: KafkaProducer(aiokafka_settings(config)),
            (config.topics.matches, config.topics.rejected),
            config.stream.produce_deadline_s,
            self._output_stalls,
        )
        most = BatchSize(config.stream.batch_posts, config.stream.batch_bytes)
        self._ingest = Ingest(
            lambda: posts_consumer(config),
            config.topics.posts,
            self._ledger,
            most,
            metrics,
            ticket,
        )
        self._threads = ThreadPoolExecutor(SIFTING, thread_name_prefix="sift")
        self._pipeline: Pipeline | None = None
        self._commit_wanted = asyncio.Event()
        self._missing = "it is starting"
        self._stalled = self._failed = self._away = False
        self._finished = 0

    async def run(self) -> None:
        """Get ready, then filter posts for as long as this is awaited."""
        embedder = await self._prepare()
        await self._ingest.start()
        steady()
        self._missing = ""
        self._metrics.ready(True)
        seeds, group = self._control.seeds, self._config.kafka.group
        log.info("ready: %d seeds, group %s", len(seeds or ()), group)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._ingest.read())
            tasks.create_task(self._ingest.failed())
            tasks.create_task(self._control.follow(embedder))
            tasks.create_task(self._commit())
            tasks.create_task(self._watch())

    async def stop(self) -> None:
        """Read no more; finish what is in flight, commit it, and leave."""
        self._missing = "it is leaving"
        self._metrics.ready(False)
        self._ingest.close()
        if not self._failed and not self._control.lost:
            await self._ingest.settle(max(0.0, self._config.stream.shutdown_s - 2 * LEAVE_S))
        await _in_time(self._ingest.commit())
        parts = (self._ingest, self._delivery, self._control, self._web)
        await asyncio.gather(*(_in_time(part.stop()) for part in parts))

    def fail(self, error: Exception) -> None:
        """End `run` with this error; nothing past it is committed."""
        self._failed = True
        self._ingest.fail(error)

    async def sift(self) -> None:
        """Take the oldest waiting batch through all stages; nothing, if none may be taken."""
        batch = None if self._control.lost else self._ledger.take()
        if batch is None:
            return
        seeds = self._control.seeds
        assert seeds is not None
        run = asyncio.get_running_loop().run_in_executor
        outcome = await run(self._threads, self._work, batch, seeds)
        if self._ledger.holds(batch):
            await self._deliver(batch, outcome)
        if self._ledger.holds(batch):
            crashpoint.reached("produced")
            self._finish(batch, outcome)
            await self._ingest.changed()

    def _work(self, batch: Batch, seeds: SeedSet) -> Outcome:
        """What the pipeline makes of a batch under one set of seeds; off the event loop."""
        assert self._pipeline is not None
        self._metrics.stage("wait", perf_counter() - batch.arrived)
        return self._pipeline.run(batch.messages, seeds, now)

    async def _deliver(self, batch: Batch, outcome: Outcome) -> None:
        began = perf_counter()
        letters = [self._letter(record) for record in outcome.records]

        def shrink(letter: Letter) -> Letter | None:
            """Headers alone in the place of a record that the broker finds too large."""
            if letter.topic == self._config.topics.rejected:
                if letter.value is not None:
                    return replace(letter, value=None)
                own = without_input_headers(letter.headers)
                return replace(letter, headers=own) if len(own) < len(letter.headers) else None
            outcome.rejected[Reason.RECORD_TOO_LARGE] += 1
            said = f"its match record of {len(letter.value or b'')} bytes is too large"
            message = batch.messages[letter.source]
            return self._letter(
                to_dead_letter(letter.source, message, Reason.RECORD_TOO_LARGE, said)
            )

        if letters:
            await self._delivery.deliver(letters, shrink)
            self._metrics.stage("produce", perf_counter() - began)

    def _letter(self, record: Record) -> Letter:
        topics = self._config.topics
        topic = topics.matches if record.kind == "match" else topics.rejected
        written = record.timestamp
        if written is not None:  # a broker refuses what comes from the future
            written = min(written, round(time.time() * 1000))
        return Letter(topic, record.key, record.value, record.headers, record.source, written)

    def _finish(self, batch: Batch, outcome: Outcome) -> None:
        """All that came of a batch is acknowledged."""
        at = time.time()
        self._metrics.batch(outcome, ages((message.timestamp for message in batch.messages), at))
        self._metrics.progress(at)
        self._finished += 1
        self._ledger.finish(batch)
        self._commit_wanted.set()

    async def _commit(self) -> None:
        """Commit whenever a batch was finished; all that has been by then at once."""
        while True:
            await self._commit_wanted.wait()
            self._commit_wanted.clear()
            await self._ingest.commit()

    async def _watch(self) -> None:
        """Look at the lag and the seeds now and then, and end the worker if it stands still."""
        dog = Watchdog(self._config.stream.stall_s, monotonic)
        while True:
            await asyncio.sleep(LOOK_S)
            backlogs = await self._backlogs()
            for partition, backlog in backlogs.items():
                self._metrics.lag(partition, backlog.lag)
            self._metrics.in_flight(len(self._ledger))
            self._control.describe()
            self._commit_wanted.set()  # of positions past markers and gaps nobody else tells
            for _ in range(self._ledger.waiting):
                await self._ticket()
            paused = self._stalled or bool(self._control.lost)
            dog.look(Sight(backlogs, paused, self._finished))

    async def _backlogs(self) -> dict[int, Backlog]:
        """What waits, by partition, of which a broker tells."""
        try:
            async with asyncio.timeout(self._config.kafka.request_timeout_s):
                found = await self._ingest.backlogs()
        except (KafkaError, TimeoutError) as error:
            if not self._away:
                log.warning("the broker does not answer (%s): waiting", type(error).__name__)
            self._away = True
            return {}
        if self._away:
            log.info("the broker answers again")
        self._away = False
        return found

    async def _prepare(self) -> SeedEmbedder:
        """All that has to be there before the first post: model, topics, seeds, output."""
        config = self._config
        await self._web.start()
        model = config.model
        loading = asyncio.ensure_future(
            asyncio.to_thread(encoder.load, model.name, model.device, model.threads)
        )
        self._missing = "the broker has not answered"
        await asyncio.to_thread(ensure_topics, config)
        self._missing = "the control topic is not yet read to its end"
        await self._control.start()
        self._missing = "the output has not answered"
        await self._delivery.start()
        self._missing = "the model is being loaded"
        enc: Encoder = await loading
        self._missing = "the seeds are being embedded"
        self._metrics.model(enc, enc.model.mix)
        self._pipeline, embedder = assembled(enc, config, perf_counter)
        await self._control.embed(embedder)
        await asyncio.to_thread(warm_up, enc, config.matching.why)
        return embedder

    def _state(self) -> State:
        return State("", self._missing or self._control.lost, self._control.seeds)

    def _control_holds(self, why: str) -> None:
        self._metrics.ready(not why and not self._missing)
        if why:
            self._metrics.paused("control")
        else:
            self._metrics.resumed("control")

    def _output_stalls(self, stalls: bool) -> None:
        if stalls and not self._stalled:
            self._metrics.paused("output")
        if self._stalled and not stalls:
            log.info("the output answers again")
            self._metrics.resumed("output")
        self._stalled = stalls


def warm_up(enc: Encoder, why: bool) -> None:
    """Take a made-up match through all stages: what is not compiled yet is compiled now."""
    book = SeedBook()
    book.apply(b"warm", b'{"text": "warm up"}')
    seeds = SeedEmbedder(enc, 0.5, 0.01).make(book)
    value = b'{"id": "1", "text": "warm up"}'
    message = ConsumerRecord("warm", 0, 0, 0, 0, None, value, None, -1, len(value), ())
    with crashpoint.unwatched():
        Pipeline(enc, "plain", why=why).run([message], seeds, now)


def steady() -> None:
    """Keep pauses short from here on: what the start has made stays, so nobody looks through it."""
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()


def ages(timestamps: Iterable[int | None], at: float) -> npt.NDArray[np.float64]:
    """Seconds since each of Kafka's timestamps [n]; of some posts it has none: None, or -1."""
    stamps = [stamp for stamp in timestamps if stamp is not None and stamp >= 0]
    return np.maximum(at - np.array(stamps, float) / 1000, 0)


def now() -> str:
    """The time, as a match record has it."""
    return rfc3339(int(time.time() * 1000))


async def _in_time(work: Awaitable[None]) -> None:
    """Do it as far as the time for leaving allows; the broker may be away by then."""
    try:
        async with asyncio.timeout(LEAVE_S):
            await work
    except (KafkaError, TimeoutError) as error:
        log.warning("leaving without waiting any longer (%s: %s)", type(error).__name__, error)
