"""Open transactions: what other producers have begun to write and not ended holds a partition."""

import logging
from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition

from worker.watch.metrics import Metrics

LONG_S = 60.0  # after which it is logged: as long as a producer's transaction may take by default
log = logging.getLogger("newsift.ingest")


@dataclass(frozen=True, slots=True)
class Held:
    """A partition of which the records from one offset on wait for the end of a transaction."""

    stable: int  # where the transaction begins
    since: float
    at: float

    @property
    def seconds(self) -> float:
        """For how long, as far as has been seen."""
        return self.at - self.since


class OpenTransactions:
    """How much a consumer is not given because a transaction is open, and for how long.

    Every fetch tells it, and the time goes by the fetches, so that it stands while none is made. A
    consumer that reads uncommitted is given everything, and is told of no stable offset.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._held: dict[TopicPartition, Held] = {}

    def look(self, consumer: Any) -> None:
        """Take note of where each partition stands."""
        places = consumer.assignment()
        before, self._held = self._held, {}
        for place in places:
            stable, high = consumer.last_stable_offset(place), consumer.highwater(place)
            if high is None or stable is None or stable < 0:
                continue  # not fetched yet, or read uncommitted
            if high > stable:
                at = consumer.last_poll_timestamp(place) / 1000
                self._held[place] = self._hold(place, stable, at, before.get(place))
            seconds = self._held[place].seconds if place in self._held else 0.0
            self._metrics.open_transaction(place.topic, place.partition, high - stable, seconds)
        for place in before.keys() - places:
            self._metrics.open_transaction(place.topic, place.partition, 0, 0.0)

    def _hold(self, place: TopicPartition, stable: int, at: float, before: Held | None) -> Held:
        if before is None or before.stable != stable:
            return Held(stable, at, at)
        held = Held(stable, before.since, at)
        if before.seconds < LONG_S <= held.seconds:
            log.warning(
                "a transaction is open in %s, partition %d, from offset %d on: what follows is "
                "read when its producer or the broker ends it", place.topic, place.partition,
                stable,
            )  # fmt: skip
        return held
