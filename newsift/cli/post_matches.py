"""`newsift matches --post-to`: POSTs matches and deletions, from a consumer group of its own."""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from threading import Event
from typing import Any

import aiohttp
import msgspec
from aiokafka import ConsumerRebalanceListener, TopicPartition, errors
from yarl import URL

from newsift.collect.source import Backoff
from newsift.files.rows import MatchFilter, parse_match_record
from newsift.operations.deletions import (
    DeletedPosts,
    SourcedPost,
    add_deletions,
    parse_deletion,
    sourced,
)
from newsift.operations.messages import notify
from newsift.web.addresses import retry_after
from newsift.web.client import client_session
from worker.config import Config
from worker.kafka.aiokafka_repairs import Offsets
from worker.kafka.consumers import group_consumer, stop_within
from worker.kafka.reading import connected
from worker.match.records import instance_of
from worker.posts.outcome import PostId

RECEIVER_FAULTS = (401, 404, 408, 425, 429)  # and 5xx: the same match may be accepted later
MAX_FAILURES = 5  # of a match while later ones are accepted
MAX_WAITING_BYTES = 2**24
MIN_REMEMBERED_DELETIONS = 2**18
MAX_ATTEMPT_S = 20.0  # from the connection to the status
FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 60.0
REBALANCE_ERRORS = (errors.CommitFailedError, errors.IllegalStateError)
POLL_MS, COMMIT_INTERVAL_S, STOP_S, MAX_ASSIGN_S = 500, 1.0, 2.0, 10.0
log = logging.getLogger("newsift.post")


@dataclass(slots=True, eq=False)
class Delivery:
    """A match or a deletion record that is not yet accepted."""

    place: TopicPartition
    offset: int
    body: bytes
    name: str
    post: SourcedPost
    pauses: Backoff
    due: float = 0.0
    failures: int = 0  # 1 before a later match was accepted
    was_overtaken: bool = False  # by a later match that was accepted


class MatchPoster(ConsumerRebalanceListener):  # type: ignore[misc]
    """Posts one match at a time; commits up to the first that is neither accepted nor set aside.

    After a fault of the receiver a match waits and is posted again. Between two pauses one later
    match is posted as well, so that a match that is never accepted does not hold up the others.
    """

    def __init__(
        self, config: Config, url: URL, filters: MatchFilter, start: Mapping[int, int],
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:  # fmt: skip
        """`start` has the offsets of the partitions at which a new group begins."""
        choice = repr([str(url), sorted(filters.seeds), sorted(filters.events), filters.new])
        self.group = f"newsift-post-{sha256(choice.encode()).hexdigest()[:12]}"
        self._config = replace(config, kafka=replace(config.kafka, group=self.group))
        self._url, self._filters, self._start = url, filters, start
        self._first_pause_s = first_pause_s
        self._waiting: list[Delivery] = []  # oldest first
        self._assigned = asyncio.Event()  # set while it has partitions and knows where to begin
        self._deleted, self._is_ending = DeletedPosts(MIN_REMEMBERED_DELETIONS), Event()
        self._pauses = Backoff(first_pause_s, MAX_PAUSE_S)
        self._resume_at = self._commit_at = 0.0
        self.accepted = self.set_aside = 0

    async def start(self) -> None:
        topic, timeout = self._config.topics.matches, aiohttp.ClientTimeout(total=MAX_ATTEMPT_S)
        self._session = client_session(timeout, connections=1)
        self._consumer = group_consumer(self._config)
        await self._consumer.start()
        places = [TopicPartition(topic, number) for number in self._start]
        committed = await self._consumer.committed_offsets(places)
        reached = {p.partition: at for p, at in committed.items() if at is not None}
        if reached:
            self._start = {}  # a partition that was added later is read from its first match
        await asyncio.to_thread(self._read_deletions, {**self._start, **reached})
        self._consumer.subscribe([topic], listener=self)

    def _read_deletions(self, start: Mapping[int, int]) -> None:
        """What the topic has now: the matches of these posts are not posted any more."""
        topic = self._config.topics.matches
        with connected(self._config) as cluster:
            first = cluster.beginnings(topic)
            offsets = {part: max(at, start.get(part, 0)) for part, at in first.items()}
            for batch in cluster.read(topic, offsets):
                add_deletions(batch, self._deleted)
                if self._is_ending.is_set():  # a thread cannot be cancelled
                    return

    async def stop(self) -> None:
        self._is_ending.set()
        await stop_within(self._commit(), STOP_S)
        await stop_within(self._consumer.stop(), STOP_S)
        await self._session.close()
        notify(f"matches accepted: {self.accepted:,}, set aside: {self.set_aside:,}")

    async def run(self) -> None:
        while True:
            try:
                await self._round()
            except errors.KafkaError as error:
                if not (error.retriable or isinstance(error, REBALANCE_ERRORS)):
                    raise
                log.warning("Kafka fails and is asked again: %r", error)
                await asyncio.sleep(self._first_pause_s)

    async def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        """A new group commits where it begins: what has no commit later is a new partition."""
        try:
            async with asyncio.timeout(MAX_ASSIGN_S):
                committed = await self._consumer.committed_offsets(partitions)
                new = [place for place, offset in committed.items() if offset is None]
                for place in new:
                    await self._seek(place, self._start)
                if new:
                    await self._commit()
        except (errors.KafkaError, TimeoutError) as error:
            log.info("where the group begins is not committed yet: %r", error)
        finally:
            self._assigned.set()

    async def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        """The next reader of the partitions posts what is not committed."""
        self._assigned.clear()
        with suppress(errors.KafkaError, TimeoutError):
            await asyncio.wait_for(self._commit(), STOP_S)
        self._waiting.clear()

    async def _round(self) -> None:
        """Post the match that has waited longest and a later one; pause if none is accepted."""
        await asyncio.sleep(self._resume_at - time.monotonic())
        due = [delivery for delivery in self._waiting if delivery.due <= time.monotonic()]
        attempts = [await self._post(min(due, key=lambda delivery: delivery.due))] if due else []
        if sum(len(delivery.body) for delivery in self._waiting) >= MAX_WAITING_BYTES:
            await asyncio.sleep(self._first_pause_s)
        elif (delivery := await self._read(0 if due else POLL_MS)) is not None:
            attempts.append(await self._post(delivery))
        if None in attempts:
            self._pauses.reset()
        elif attempts:
            waits = [self._pauses.pause(), *(wait or 0.0 for wait in attempts)]
            self._resume_at = time.monotonic() + max(waits)
        if time.monotonic() >= self._commit_at:
            self._commit_at = time.monotonic() + COMMIT_INTERVAL_S
            await self._commit()

    async def _read(self, timeout_ms: int) -> Delivery | None:
        """The next match; None if none has come, or one that is not chosen."""
        if not self._assigned.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._assigned.wait(), timeout_ms / 1000)
            return None
        try:
            batches = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=1)
        except errors.NoOffsetForPartitionError as error:
            await self._seek(error.args[0], self._start)
            return None
        except errors.OffsetOutOfRangeError as error:
            for place, offset in error.args[0].items():
                notify(f"matches of {place.topic}-{place.partition} from {offset} on were deleted")
                await self._seek(place, {})
            return None
        return self._delivery(batches.popitem()[1][0]) if batches else None

    async def _seek(self, place: TopicPartition, start: Mapping[int, int]) -> None:
        """To the offset of the partition in `start`, else to the first that exists."""
        firsts = await self._consumer.beginning_offsets([place])
        self._consumer.seek(place, start.get(place.partition, firsts[place]))

    def _delivery(self, message: Any) -> Delivery | None:
        """Every deletion record, as the receiver may have the post since another choice of events.

        No match of a post is posted after its deletion is known.
        """
        if (deletion := parse_deletion(message.value)) is not None:
            deleted, post = DeletedPosts(), sourced(deletion.post.post_id, instance_of(message))
            deleted.add(post)
            self._deleted.add(post)
            self._waiting = [each for each in self._waiting if not deleted.covers(each.post)]
            return self._wait(message, message.value, "a deletion", deletion.post.post_id)
        record, body = parse_match_record(message.value), message.value
        if record is None or not (matches := self._filters.select(record)):
            return None
        if self._deleted.covers(sourced(record.post.post_id, instance_of(message))):
            return None
        if len(matches) < len(record.matches):
            ids, content = {match.match_id for match in matches}, msgspec.json.decode(body)
            content["matches"] = [m for m in content["matches"] if m["match_id"] in ids]
            body = msgspec.json.encode(content)
        name = f"match {matches[0].match_id}"
        return self._wait(message, body, name, record.post.post_id)

    def _wait(self, message: Any, body: bytes, what: str, post_id: PostId) -> Delivery:
        post = sourced(post_id, instance_of(message))
        place = TopicPartition(message.topic, message.partition)
        name = f"{what} ({place.topic}-{place.partition}-{message.offset})"
        pauses = Backoff(self._first_pause_s, MAX_PAUSE_S)
        self._waiting.append(Delivery(place, message.offset, body, name, post, pauses))
        return self._waiting[-1]

    async def _post(self, delivery: Delivery) -> float | None:
        """Returns None if the match need not be posted again, else the seconds to wait."""
        status, wait, says = 0, 0.0, "does not answer"
        headers = {"Content-Type": "application/json"}
        try:
            async with self._session.post(
                self._url, data=delivery.body, headers=headers, allow_redirects=False
            ) as answer:
                status, wait = answer.status, min(retry_after(answer.headers), MAX_PAUSE_S)
                says = f"answers {status}"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            says += f" ({type(error).__name__})"  # its text may hold the address, a secret
        problem = f"{self._url.host} {says} to {delivery.name}"
        if delivery not in self._waiting:  # its partition was revoked
            return None
        if 200 <= status < 300:
            self._accept(delivery)
            return None
        if status == 0 or status >= 500 or status in RECEIVER_FAULTS:
            delivery.failures = delivery.failures + 1 if delivery.was_overtaken else 1
            if delivery.failures < MAX_FAILURES:
                log.warning("%s: it waits", problem)
                delivery.due = time.monotonic() + max(wait, delivery.pauses.pause())
                return wait
        self._waiting.remove(delivery)
        self.set_aside += 1
        notify(f"{problem}: it is set aside, {self.set_aside:,} so far")
        return None

    def _accept(self, delivery: Delivery) -> None:
        """The receiver works again: what waited for that is due now."""
        index = self._waiting.index(delivery)
        for number, other in enumerate(self._waiting):
            if not other.was_overtaken:
                other.due, other.was_overtaken = 0.0, number < index
        self._waiting.remove(delivery)
        self.accepted += 1

    async def _commit(self) -> None:
        offsets: Offsets = await self._consumer.positions()
        for delivery in self._waiting:
            place = delivery.place
            offsets[place] = min(offsets.get(place, delivery.offset), delivery.offset)
        if offsets:
            await self._consumer.commit(offsets)
