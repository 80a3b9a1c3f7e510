"""Rereading: what a full lane has left in the topic is read again once the lane has room."""

import asyncio
import logging
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from worker.cli.wanted import Wanted
from worker.cli.watch.counts import WatchCounts
from worker.cli.watch.lanes import Lane, Lanes
from worker.cli.watch.notices import notices_of
from worker.cli.watch.places import first_kept
from worker.kafka.consumers import Offsets

POLL_MS = 500
STEP = 200  # records at a time
BACKOFF_S = 0.5
log = logging.getLogger("newsift.watch")


class Rereader:
    """A second reader of the topic, without a group, for one lane after the other."""

    def __init__(self, consumer: Any, lanes: Lanes, wanted: Wanted, counts: WatchCounts) -> None:
        self._consumer, self._lanes = consumer, lanes
        self._wanted, self._counts = wanted, counts

    async def start(self) -> None:
        """Connect."""
        await self._consumer.start()

    async def stop(self) -> None:
        """Disconnect."""
        await self._consumer.stop()

    async def run(self) -> None:
        """Fill lanes that lag behind, for as long as this is awaited."""
        while True:
            if (lane := self._lanes.lagging()) is None:
                await self._lanes.changed()
                continue
            try:
                await self._fill(lane)
            except KafkaError as error:
                if not error.retriable:
                    raise
                log.warning("reading again failed and is tried again: %s", error)
                await asyncio.sleep(BACKOFF_S)

    async def _fill(self, lane: Lane) -> None:
        """Read on where a lane left off until it is full, or has all that has been read.

        The last record that was read is in the topic, so there always is one that ends it.
        """
        self._consumer.assign(list(lane.behind))
        for place, offset in lane.behind.items():
            self._consumer.seek(place, offset)
        while lane.behind and lane.has_room:
            try:
                found = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=STEP)
            except OffsetOutOfRangeError as error:
                await self._skip(lane, error.args[0])
                continue
            if not all(self._take(lane, *part) for part in found.items()):
                break  # what found no room is asked for again
        self._lanes.caught_up(lane)

    def _take(self, lane: Lane, place: TopicPartition, records: list[Any]) -> bool:
        """Put a lane's own of some records into it: whether there was room for all."""
        for record in records:
            if place not in lane.behind:
                break  # from here on the lane is given what is read first
            mine = (notices_of(record, self._wanted) or {}).get(lane.event)
            if mine is not None and not self._lanes.hold(lane, mine):
                return False
            self._note(lane, place, record.offset + 1)
        return True

    def _note(self, lane: Lane, place: TopicPartition, offset: int) -> None:
        """Note how far a lane has been read again; where that is all, it lags no more."""
        lane.behind[place] = offset
        if offset >= self._lanes.reached.get(place, 0):
            del lane.behind[place]

    async def _skip(self, lane: Lane, lost: Offsets) -> None:
        """Go on with the first record that is there, where the next one was deleted."""
        first = await first_kept(self._consumer, lost, self._counts, f"event {lane.event}: ")
        for place, offset in first.items():
            self._consumer.seek(place, offset)
            if place in lane.behind:  # else it was dropped meanwhile
                self._note(lane, place, offset)
