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

    def refusal(self, topic: str, error: Exception) -> float:
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

    def outage(self) -> None:
        """Forgets the failures: the broker is away, or a topic lacks a leader or replicas."""
        self.missed = self.refused = 0

    def pause(self, topic: str, error: Exception) -> float:
        """The seconds to wait after an error before a new producer is made."""
        if isinstance(error, ProducerClosedError | MessageSizeTooLargeError):
            return 0.0
        if not is_outage(error):
            return self.refusal(topic, error)
        self.outage()
        return RETRY_S


class Delivery:
    """Sends letters and waits for their acknowledgement, however long an outage takes.

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
        make: Callable[[], Any],
        topics: Sequence[str],
        deadline_s: float,
        stalled: Callable[[bool], None],
    ) -> None:
        self._topics, self._deadline_s, self._stalled = topics, deadline_s, stalled
        self._relay = ProducerSwitch(make, topics)
        self._late: set[object] = set()

    async def start(self) -> None:
        await self._relay.start()

    async def stop(self) -> None:
        """Records without an acknowledgement are dropped."""
        await self._relay.stop()

    async def deliver(self, letters: Sequence[ProducerRecord], shrink: Shrink) -> None:
        """Returns when each record is acknowledged; `shrink` makes a large one fit."""
        left, patience = list(letters), FailureCounts()
        try:
            while left:
                left = await self._send_watched(left, shrink, patience)
        finally:
            self._late.discard(patience)
            if self._relay.is_open:
                self._stalled(bool(self._late))

    async def _send_watched(
        self, letters: list[ProducerRecord], shrink: Shrink, patience: FailureCounts
    ) -> list[ProducerRecord]:
        """Attempts to send all records; looks at the broker whenever a deadline passes."""
        link = await self._relay.link()
        attempt = asyncio.ensure_future(self._attempt(link, letters, shrink, patience))
        try:
            while not (await asyncio.wait({attempt}, timeout=self._deadline_s))[0]:
                self._report_late(patience)
                await self._handle_missed_deadline(link, patience)
            return attempt.result()
        finally:
            attempt.cancel()

    async def _attempt(
        self,
        link: ProducerSession,
        letters: list[ProducerRecord],
        shrink: Shrink,
        patience: FailureCounts,
    ) -> list[ProducerRecord]:
        """Sends all records once; returns those to send again, through a new producer if needed."""
        failed = await link.send(letters)
        left = [
            letter
            for parcel, why in failed
            for letter in self._letters_to_retry(parcel, why, shrink)
        ]
        for parcel, why in failed:
            if parcel.fits and not isinstance(why, KafkaTimeoutError):  # that was not even queued
                pause = patience.pause(parcel.topic, why)
                await self._relay.replace(link, f"{parcel.topic}: {describe(why)}", pause)
                break
        return left

    def _letters_to_retry(
        self, parcel: ProducerBatch, error: Exception, shrink: Shrink
    ) -> list[ProducerRecord]:
        """Fewer records at once, or a smaller one, where the batch was too large."""
        if not isinstance(error, MessageSizeTooLargeError):
            return parcel.letters
        if len(parcel.letters) > 1:
            self._relay.room[parcel.topic] = parcel.size // 2
            return parcel.letters
        smaller = shrink(parcel.letters[0])
        if smaller is None:
            raise error
        return [smaller]

    async def _handle_missed_deadline(self, link: ProducerSession, patience: FailureCounts) -> None:
        """It counts only if the broker answers and reports no problem."""
        if self._relay.is_replacing:
            return
        try:
            async with asyncio.timeout(self._deadline_s):
                await link.producer.ready(self._topics)
        except UnknownTopicOrPartitionError as error:
            patience.refusal(str(error.args[0]), error)
            return
        except (KafkaError, TimeoutError):
            patience.outage()
            return
        patience.missed += 1
        if patience.missed == MAX_MISSED_DEADLINES:
            link.cut()
        if patience.missed == 2 * MAX_MISSED_DEADLINES:
            raise BrokerError(
                f"no acknowledgement from {' or '.join(self._topics)} within "
                f"{2 * MAX_MISSED_DEADLINES * self._deadline_s:g} s, although the broker answers; "
                "see its log"
            )

    def _report_late(self, who: object) -> None:
        if not self._late:
            log.warning("the output has not acknowledged for %g s: pausing", self._deadline_s)
        self._late.add(who)
        self._stalled(True)


class ProducerSwitch:
    """The current producer, and earlier ones until their last acknowledgement."""

    def __init__(self, make: Callable[[], Any], topics: Sequence[str]) -> None:
        self._make, self._topics = make, topics
        self.room: dict[str, int] = {}  # for a parcel, by what was refused
        self._link: ProducerSession | None = None
        self._replacing = asyncio.Lock()
        self._leaving: dict[asyncio.Future[None], ProducerSession] = {}

    @property
    def is_replacing(self) -> bool:
        return self._replacing.locked()

    @property
    def is_open(self) -> bool:
        return self._link is not None

    async def start(self) -> None:
        self._link = await self._open()
        await self._link.producer.ready(self._topics)

    async def stop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            self._retire(link)
        for leaving in self._leaving.values():
            leaving.cut()
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=1)
        for task in self._leaving:
            task.cancel()

    async def link(self) -> ProducerSession:
        """The current session; waits for ever once stopped, as the worker ends anyway."""
        async with self._replacing:
            link = self._link
        return await asyncio.Future() if link is None else link

    async def replace(self, link: ProducerSession, why: str, pause_s: float) -> None:
        """Opens a session in the place of one that failed, once the broker is back."""
        async with self._replacing:
            if self._link is not link:
                return
            log.warning("the producer is replaced, as it cannot deliver (%s)", why)
            self._retire(link)
            await asyncio.sleep(pause_s)
            while self._link is link:
                try:
                    self._link = await self._open()
                except KafkaError as error:
                    if is_refusal(error):
                        raise
                    await asyncio.sleep(RETRY_S)

    async def _open(self) -> ProducerSession:
        link = ProducerSession(self._make(), self.room)
        try:
            await link.producer.start()
            await link.ask(self._topics)
        except BaseException:
            self._retire(link)
            raise
        return link

    def _retire(self, link: ProducerSession) -> None:
        leaving = asyncio.ensure_future(link.leave())
        self._leaving[leaving] = link
        leaving.add_done_callback(self._leaving.pop)


def is_outage(error: Exception) -> bool:
    """Whether the broker is away, for whatever time."""
    missing = isinstance(error, UnknownTopicOrPartitionError)
    return isinstance(error, KafkaError) and bool(error.retriable) and not missing
