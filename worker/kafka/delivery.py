"""Sends records until the broker has acknowledged them, through outages."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from aiokafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    UnknownTopicOrPartitionError,
)

from worker.errors import BrokerError
from worker.kafka.errors import describe, is_refusal
from worker.kafka.producer import (
    ProducerBatch,
    ProducerClosedError,
    ProducerRecord,
    ProducerSession,
)

MAX_MISSED_DEADLINES = 3  # in a row, while the broker reports no error
MIN_REFUSALS = 3
MAX_REFUSED_S = 30.0  # Refusals become an error after both this number and this time.
RETRY_S = 0.5
MAX_RETRY_S = 16.0
log = logging.getLogger("newsift.delivery")

Shrink = Callable[[ProducerRecord], ProducerRecord | None]


@dataclass(eq=False)
class FailureCounts:
    """How often a delivery has failed although the broker answers."""

    missed: int = 0  # deadlines
    refused: int = 0  # attempts
    since: float = 0.0  # the first of them

    def count_refusal(self, topic: str, error: Exception) -> float:
        """Counts a refused attempt; returns the seconds before the next one."""
        self.since = self.since if self.refused else monotonic()
        self.refused += 1
        seconds = monotonic() - self.since
        if self.refused >= MIN_REFUSALS and seconds >= MAX_REFUSED_S:
            raise BrokerError(
                f"topic {topic}: the broker refuses what is written there ({describe(error)}), "
                f"{self.refused} times in {seconds:.0f} s; run `newsift topics check`, and look at "
                "this machine's clock and the broker's log"
            ) from error
        if self.refused == 1:
            return 0.0
        return min(RETRY_S * 2.0 ** (self.refused - 2), MAX_RETRY_S)

    def reset(self) -> None:
        """Forgets the failures: the broker is away, or a topic lacks a leader or replicas."""
        self.missed = self.refused = 0

    def retry_pause(self, topic: str, error: Exception) -> float:
        """The seconds to wait after an error before a new producer is made."""
        if isinstance(error, ProducerClosedError | MessageSizeTooLargeError):
            return 0.0
        if not is_outage(error):
            return self.count_refusal(topic, error)
        self.reset()
        return RETRY_S


class Delivery:
    """Sends records and waits for their acknowledgement, however long an outage takes.

    aiokafka resends an idempotent batch for ever, which is right while the broker is away, so a
    missed deadline alone only means that the output stalls. If the broker answers, has leaders for
    all partitions, and still does not acknowledge, a new producer is made. If that fails too, it is
    an error.

    A refused batch has used up sequence numbers: the same producer's later batches for that
    partition are out of order. So nothing is sent that is larger than the topic allows. If a batch
    is refused anyway, a new producer is made, with a growing delay; in the end the refusal is an
    error.
    """

    def __init__(
        self,
        make_producer: Callable[[], Any],
        topics: Sequence[str],
        deadline_s: float,
        on_stalled: Callable[[bool], None],
    ) -> None:
        self._topics, self._deadline_s, self._on_stalled = topics, deadline_s, on_stalled
        self._producers = ProducerSwitch(make_producer, topics)
        self._overdue: set[FailureCounts] = set()  # of deliveries that missed a deadline

    async def start(self) -> None:
        await self._producers.start()

    async def stop(self) -> None:
        """Records without an acknowledgement are dropped."""
        await self._producers.stop()

    async def deliver(self, records: Sequence[ProducerRecord], shrink: Shrink) -> None:
        """Returns when each record is acknowledged; `shrink` makes a large one fit."""
        pending, failures = list(records), FailureCounts()
        try:
            while pending:
                pending = await self._send_watched(pending, shrink, failures)
        finally:
            self._overdue.discard(failures)
            if self._producers.is_open:
                self._on_stalled(bool(self._overdue))

    async def _send_watched(
        self, records: list[ProducerRecord], shrink: Shrink, failures: FailureCounts
    ) -> list[ProducerRecord]:
        """Attempts to send all records; looks at the broker whenever a deadline passes."""
        session = await self._producers.session()
        attempt = asyncio.ensure_future(self._attempt(session, records, shrink, failures))
        try:
            while not (await asyncio.wait({attempt}, timeout=self._deadline_s))[0]:
                self._report_late(failures)
                await self._handle_missed_deadline(session, failures)
            return attempt.result()
        finally:
            attempt.cancel()

    async def _attempt(
        self,
        session: ProducerSession,
        records: list[ProducerRecord],
        shrink: Shrink,
        failures: FailureCounts,
    ) -> list[ProducerRecord]:
        """Sends all records once; returns those to send again, through a new producer if needed."""
        failed_batches = await session.send(records)
        pending = [
            record
            for batch, reason in failed_batches
            for record in self._records_to_retry(batch, reason, shrink)
        ]
        for batch, reason in failed_batches:
            if batch.fits and not isinstance(reason, KafkaTimeoutError):  # that was not even queued
                pause = failures.retry_pause(batch.topic, reason)
                await self._producers.replace(session, f"{batch.topic}: {describe(reason)}", pause)
                break
        return pending

    def _records_to_retry(
        self, batch: ProducerBatch, error: Exception, shrink: Shrink
    ) -> list[ProducerRecord]:
        """Fewer records at once, or a smaller one, where the batch was too large."""
        if not isinstance(error, MessageSizeTooLargeError):
            return batch.records
        if len(batch.records) > 1:
            self._producers.max_bytes[batch.topic] = batch.size // 2
            return batch.records
        smaller_record = shrink(batch.records[0])
        if smaller_record is None:
            raise error
        return [smaller_record]

    async def _handle_missed_deadline(
        self, session: ProducerSession, failures: FailureCounts
    ) -> None:
        """It counts only if the broker answers and reports no problem."""
        if self._producers.is_replacing:
            return
        try:
            async with asyncio.timeout(self._deadline_s):
                await session.producer.ready(self._topics)
        except UnknownTopicOrPartitionError as error:
            failures.count_refusal(str(error.args[0]), error)
            return
        except (KafkaError, TimeoutError):
            failures.reset()
            return
        failures.missed += 1
        if failures.missed == MAX_MISSED_DEADLINES:
            session.fail_waits()
        if failures.missed == 2 * MAX_MISSED_DEADLINES:
            raise BrokerError(
                f"no acknowledgement from {' or '.join(self._topics)} within "
                f"{2 * MAX_MISSED_DEADLINES * self._deadline_s:g} s, although the broker answers; "
                "see its log"
            )

    def _report_late(self, failures: FailureCounts) -> None:
        if not self._overdue:
            log.warning("the output has not acknowledged for %g s: pausing", self._deadline_s)
        self._overdue.add(failures)
        self._on_stalled(True)


class ProducerSwitch:
    """The current producer, and earlier ones until their last acknowledgement."""

    def __init__(self, make_producer: Callable[[], Any], topics: Sequence[str]) -> None:
        self._make_producer, self._topics = make_producer, topics
        self.max_bytes: dict[str, int] = {}  # of a batch, by what was refused
        self._session: ProducerSession | None = None
        self._replacing = asyncio.Lock()
        self._closing: dict[asyncio.Future[None], ProducerSession] = {}

    @property
    def is_replacing(self) -> bool:
        return self._replacing.locked()

    @property
    def is_open(self) -> bool:
        return self._session is not None

    async def start(self) -> None:
        self._session = await self._open()
        await self._session.producer.ready(self._topics)

    async def stop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._close_later(session)
        for closing in self._closing.values():
            closing.fail_waits()
        if self._closing:
            await asyncio.wait(self._closing, timeout=1)
        for task in self._closing:
            task.cancel()

    async def session(self) -> ProducerSession:
        """The current session; waits for ever once stopped, as the worker ends anyway."""
        async with self._replacing:
            session = self._session
        return await asyncio.Future() if session is None else session

    async def replace(self, session: ProducerSession, reason: str, pause_s: float) -> None:
        """Opens a session in the place of one that failed, once the broker is back."""
        async with self._replacing:
            if self._session is not session:
                return
            log.warning("the producer is replaced, as it cannot deliver (%s)", reason)
            self._close_later(session)
            await asyncio.sleep(pause_s)
            while self._session is session:
                try:
                    self._session = await self._open()
                except KafkaError as error:
                    if is_refusal(error):
                        raise
                    await asyncio.sleep(RETRY_S)

    async def _open(self) -> ProducerSession:
        session = ProducerSession(self._make_producer(), self.max_bytes)
        try:
            await session.producer.start()
            await session.read_limits(self._topics)
        except BaseException:
            self._close_later(session)
            raise
        return session

    def _close_later(self, session: ProducerSession) -> None:
        closing = asyncio.ensure_future(session.close())
        self._closing[closing] = session
        closing.add_done_callback(self._closing.pop)


def is_outage(error: Exception) -> bool:
    """Whether waiting may cure the error; a missing topic is counted as a refusal."""
    missing = isinstance(error, UnknownTopicOrPartitionError)
    return isinstance(error, KafkaError) and bool(error.retriable) and not missing
