"""Delivery: every letter is sent, and waited for until it is acknowledged, through outages."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from aiokafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError

from worker.brokererrors import LOGIN, MECHANISM, RIGHTS, names
from worker.errors import BrokerError
from worker.outbox import Gone, Letter, Link, OpenProducer, Parcel

BACKOFF_S = 0.5
PATIENCE = 3  # deadlines missed in a row while the broker says that all is well
REFUSALS = {*LOGIN, *MECHANISM, *RIGHTS, "TransactionalIdAuthorizationFailed"}
log = logging.getLogger("newsift.delivery")

Shrink = Callable[[Letter], Letter | None]


def refused(error: BaseException) -> bool:
    """Whether the broker refuses for a reason that waiting does not cure."""
    return bool(names(error) & REFUSALS)


class Delivery:
    """Sends letters and waits for their acknowledgement, however long an outage takes.

    aiokafka sends an idempotent batch again without end, which is right while the broker is away,
    so a missed deadline alone only says that the output stalls. If the broker answers, has leaders
    for all partitions, and still does not acknowledge, then a fresh producer takes over; if that
    does not help either, it is an error.

    A batch that the broker refuses has used up sequence numbers: whatever the same producer sends
    to that partition afterwards is out of order. So nothing is sent that is larger than the topic
    takes, and if something is refused all the same, a fresh producer takes over then too.
    """

    def __init__(
        self,
        make: OpenProducer,
        topics: Sequence[str],
        deadline_s: float,
        stalled: Callable[[bool], None],
    ) -> None:
        self._make, self._topics, self._deadline_s = make, topics, deadline_s
        self._stalled = stalled
        self._late: set[object] = set()
        self._room: dict[str, int] = {}  # for a parcel, by what was refused
        self._link: Link | None = None
        self._renewing = asyncio.Lock()
        self._leaving: dict[asyncio.Task[None], Link] = {}

    async def start(self) -> None:
        """Connect, and see that every topic of the output answers."""
        self._link = await self._open()
        if not await self._link.producer.answers(self._topics):
            raise KafkaTimeoutError(f"no leader for {' or '.join(self._topics)}")

    async def stop(self) -> None:
        """Disconnect; what is not acknowledged by now is left."""
        link, self._link = self._link, None
        if link is not None:
            self._retire(link)
        self._cut()
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=1)
        for task in self._leaving:
            task.cancel()

    async def deliver(self, letters: Sequence[Letter], shrink: Shrink) -> None:
        """Send all and return once each is acknowledged; `shrink` makes what is too large fit."""
        left, missed, me = list(letters), 0, object()
        try:
            while left:
                sending = asyncio.ensure_future(self._attempt(left, shrink))
                try:
                    while not (await asyncio.wait({sending}, timeout=self._deadline_s))[0]:
                        self._be_late(me)
                        missed = await self._missed(missed)
                    left = sending.result()
                finally:
                    sending.cancel()
        finally:
            self._late.discard(me)
            if self._link is not None:
                self._stalled(bool(self._late))

    async def _attempt(self, letters: list[Letter], shrink: Shrink) -> list[Letter]:
        """Send all once; what is still to be sent comes back."""
        async with self._renewing:
            link = self._link
        if link is None:
            return await asyncio.Future()  # stopped: the worker ends without waiting for this
        try:
            parcels = await link.pack(letters)
        except KafkaError as error:
            await self._renew(link, error)
            return letters
        left = await asyncio.gather(*(self._send(link, parcel, shrink) for parcel in parcels))
        return [letter for part in left for letter in part]

    async def _send(self, link: Link, parcel: Parcel, shrink: Shrink) -> list[Letter]:
        """Send a parcel; nothing comes back once it is acknowledged."""
        if not parcel.fits:
            return self._smaller(parcel, shrink, MessageSizeTooLargeError())
        try:
            await link.acknowledged(parcel)
        except MessageSizeTooLargeError as error:
            left = self._smaller(parcel, shrink, error)
            await self._renew(link, error)
            return left
        except KafkaTimeoutError:
            return parcel.letters  # it was not even queued, as what was before it still is
        except (KafkaError, Gone) as error:
            await self._renew(link, error)
            return parcel.letters
        return []

    def _smaller(self, parcel: Parcel, shrink: Shrink, error: KafkaError) -> list[Letter]:
        """What to send in the place of what is too large: less at once, or a smaller letter."""
        if len(parcel.letters) > 1:
            self._room[parcel.topic] = parcel.packed.size() // 2
            return parcel.letters
        smaller = shrink(parcel.letters[0])
        if smaller is None:
            raise error
        return [smaller]

    async def _renew(self, link: Link, why: Exception) -> None:
        """Put a fresh producer in the place of one that failed; wait for the broker to be back."""
        if refused(why):
            raise why
        async with self._renewing:
            if self._link is not link:
                return
            said = f"{type(why).__name__}: {why}"
            log.warning("the producer is replaced, as it cannot deliver (%s)", said)
            self._retire(link)
            if not isinstance(why, MessageSizeTooLargeError):
                self._cut()  # else what is under way elsewhere may well arrive, and once
            while self._link is link:
                try:
                    self._link = await self._open()
                except KafkaError as error:
                    if refused(error):
                        raise
                    await asyncio.sleep(BACKOFF_S)

    async def _missed(self, missed: int) -> int:
        """One deadline more has passed; how many did so while the broker said all is well."""
        link = self._link
        if self._renewing.locked() or link is None or not await self._answers(link):
            return 0
        if missed + 1 == PATIENCE:
            self._cut()
            await self._renew(link, KafkaTimeoutError("no acknowledgement"))
        if missed + 1 == 2 * PATIENCE:
            raise BrokerError(
                f"no acknowledgement from {' or '.join(self._topics)} within "
                f"{2 * PATIENCE * self._deadline_s:g} s, although the broker answers; see its log"
            )
        return missed + 1

    async def _answers(self, link: Link) -> bool:
        try:
            async with asyncio.timeout(self._deadline_s):
                return await link.producer.answers(self._topics)
        except (KafkaError, TimeoutError):
            return False

    async def _open(self) -> Link:
        link = Link(self._make(), self._room)
        try:
            await link.producer.start()
            await link.ask(self._topics)
        except BaseException:
            self._retire(link)
            raise
        return link

    def _be_late(self, who: object) -> None:
        if not self._late:
            log.warning("the output has not acknowledged for %g s: pausing", self._deadline_s)
        self._late.add(who)
        self._stalled(True)

    def _retire(self, link: Link) -> None:
        leaving = link.retire()
        self._leaving[leaving] = link
        leaving.add_done_callback(self._leaving.pop)

    def _cut(self) -> None:
        """Wait no longer for the producers that are leaving."""
        for link in self._leaving.values():
            link.cut()
