"""Everything that must exist before the first post: model, topics, seeds, output."""

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Callable
from time import perf_counter

from encoder.encoder import Encoder
from encoder.support.memory import return_free_memory
from worker import crashpoint
from worker.assembly import build_pipeline, load_encoder
from worker.config import Config
from worker.kafka.consumers import group_consumer, groupless_consumer, stop_within
from worker.kafka.delivery import Delivery
from worker.kafka.producer import KafkaProducer, choose_partition
from worker.kafka.settings import aiokafka_producer_settings
from worker.kafka.topics import ensure_topics, require_fit_topics
from worker.match.matcher import prepare_index
from worker.match.near import NearWatch
from worker.match.pipeline import Pipeline, ProbeMessage
from worker.match.readers import share_read
from worker.match.records import RecordRules, encode_json
from worker.metrics.registry import Metrics
from worker.metrics.web import Health, Web
from worker.posts.read import PostRules
from worker.seeds.automatic import ThresholdRules
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState, parse_control_state
from worker.stream.control import Control
from worker.stream.flow import MATCH_THREADS, Flow, Matching, Output, group_matches, now
from worker.stream.ingest import Ingest
from worker.stream.ledger import Batch, Ledger
from worker.stream.partitions import Positions, Tenures

MAX_PART_STOP_S = 2.0
SHARE_POSTS = 1000  # of the background, to estimate the share of them that is read
START_REPORT_S = 2.0
THREAD_SWITCH_S = 0.001  # The event loop waits no longer for a thread that runs Python.
log = logging.getLogger("newsift.stream")


async def log_reasons(reason: Callable[[], str], every_s: float = START_REPORT_S) -> None:
    """Logs what a start waits for, if that takes long; until it is cancelled."""
    logged = ""
    while True:
        await asyncio.sleep(every_s)
        if reason() != logged:
            logged = reason()
            log.info("not ready yet: %s", logged)


class WorkerParts:
    """The parts of a worker, built from the configuration; `start` starts them."""

    flow: Flow
    _embedder: SeedEmbedder

    def __init__(self, config: Config, ledger: Ledger, fail: Callable[[Exception], None]) -> None:
        self._config, self._ledger, self._stalled = config, ledger, False
        self.not_ready_reason = "it is starting"  # why the worker is not ready
        topics, stream = config.topics, config.stream
        self.metrics = metrics = Metrics()
        self.web = Web(config.web, metrics, self._health, self._near)
        self.control = Control(
            groupless_consumer(config), topics.seeds, metrics, config.limits,
            lambda: require_fit_topics(config), self._hold_posts,
        )  # fmt: skip
        self.delivery = Delivery(
            lambda: KafkaProducer(aiokafka_producer_settings(config)),
            (topics.matches, topics.rejected), stream.produce_deadline_s, self._note_output,
        )  # fmt: skip
        consumer = group_consumer(config)
        self._tenures = Tenures(config.kafka.session_timeout_s)
        self.positions = Positions(consumer, topics.posts, ledger, self._tenures, metrics, fail)
        self.ingest = Ingest(consumer, topics.posts, self.positions, ledger, metrics, stream)

    @property
    def paused(self) -> bool:
        """Whether the worker waits for Kafka."""
        return self._stalled or bool(self.control.hold_reason)

    async def start(self) -> None:
        """Starts the parts in order; posts are read last."""
        reports = asyncio.create_task(log_reasons(lambda: self.not_ready_reason))
        try:
            await self._start()
        finally:
            reports.cancel()

    async def _start(self) -> None:
        config = self._config
        await self.web.start()
        loading = asyncio.ensure_future(asyncio.to_thread(load_encoder, config))
        self.not_ready_reason = "the broker has not answered"
        await asyncio.to_thread(ensure_topics, config)
        self.not_ready_reason = "the control topic is not yet read to its end"
        await self.control.start()
        self.not_ready_reason = "the output has not answered"
        await self.delivery.start()
        self.not_ready_reason = "the model is being loaded"
        enc = await loading
        self.not_ready_reason = "the seeds are being embedded"
        await self._embed(enc)
        await self.ingest.start()
        sys.setswitchinterval(THREAD_SWITCH_S)
        gc.freeze()  # objects of the start live on: the collector need not scan them
        return_free_memory()
        self.not_ready_reason = ""
        self.metrics.progress(time.time())
        self.metrics.ready(True)
        log.info("ready: %d seeds, group %s", len(self.control.seeds or ()), config.kafka.group)

    async def stop(self, *, settle: bool) -> None:
        """`settle` waits for what is in flight."""
        self.not_ready_reason = "it is leaving"
        self.metrics.ready(False)
        self.ingest.close()
        if settle and not self.control.hold_reason:
            # The other parts need time to stop, too.
            seconds = self._config.stream.shutdown_s - 2 * MAX_PART_STOP_S
            await self.positions.settle(max(0.0, seconds))
        await stop_within(self.positions.commit(), MAX_PART_STOP_S)
        self.positions.drop()  # what is still being read need not be
        parts = (self.ingest, self.delivery, self.control, self.web)
        await asyncio.gather(*(stop_within(part.stop(), MAX_PART_STOP_S) for part in parts))

    async def _embed(self, enc: Encoder) -> None:
        """Embeds the seeds and takes one match through all stages."""
        config = self._config
        self.metrics.model(enc.digest, enc.path, enc.model.mix)
        pipeline, self._embedder = build_pipeline(enc, config, perf_counter, MATCH_THREADS)
        near = NearWatch(self._embedder.automatic, control=True)
        output = Output(self.delivery, config.topics)
        self.flow = Flow(
            Matching(pipeline, near), self._seeds, output, self._ledger, self._tenures, self.metrics
        )
        await self.control.embed(self.make_seeds)
        self.not_ready_reason = "its code is being compiled; the first start takes a minute"
        await asyncio.to_thread(warm_up, enc, config.matching.why)

    def make_seeds(self, state: ControlState) -> SeedSet:
        """The seed set of a control state, ready to match."""
        seeds = self._embedder.make(state)
        prepare_index(seeds)
        self.flow.near.prepare(seeds)
        background = self._embedder.automatic.background.skim
        sample = background[:: max(1, len(background) // SHARE_POSTS)]
        self.metrics.background_share(share_read(seeds, sample))
        return seeds

    def _seeds(self) -> SeedSet:
        assert self.control.seeds is not None
        return self.control.seeds

    def _health(self) -> Health:
        control, group = self.control, self._config.kafka.group
        return Health(
            self.not_ready_reason or control.hold_reason, control.seeds, control.cluster_id, group
        )

    def _near(self, event: str) -> bytes | None:
        """Near misses as JSON; None until posts are read, and for an unknown event."""
        answer = None if self.not_ready_reason else self.flow.near.answer(event)
        return None if answer is None else encode_json(answer)

    def _hold_posts(self, why: str) -> None:
        """Pauses the posts for a reason; "" resumes them."""
        self._ledger.pause(bool(why))
        self.metrics.ready(not why and not self.not_ready_reason)
        self._count_pause("control", bool(why))

    def _note_output(self, is_stalled: bool) -> None:
        if self._stalled and not is_stalled:
            log.info("the output answers again")
        if self._stalled != is_stalled:
            self._count_pause("output", is_stalled)
        self._stalled = is_stalled

    def _count_pause(self, why: str, is_paused: bool) -> None:
        if is_paused:
            self.metrics.begin_pause(why)
        else:
            self.metrics.end_pause(why)


def warm_up(enc: Encoder, why: bool) -> None:
    """Takes an invented match through all stages, so that everything is compiled."""
    choose_partition(b"", [0])
    message = ProbeMessage()
    state = parse_control_state({b"warm": message.value})
    embedder = SeedEmbedder(enc, ThresholdRules(0.5, 0.01))
    seeds = embedder.make(state)
    with crashpoint.without_hook():
        edges = NearWatch(embedder.automatic).edges(seeds)
        pipeline = Pipeline(enc, PostRules("plain"), RecordRules(why=why))
        outcome = pipeline.run([message], seeds, now, edges)
        group_matches(Batch(0, [message]), outcome, Tenures(0))
