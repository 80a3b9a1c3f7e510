"""Open transactions: posts behind a transaction that a producer has not ended cannot be read."""

import logging
from typing import Any

from aiokafka import TopicPartition

from worker.metrics.registry import Metrics

LOG_AFTER_S = 60.0  # A producer's transaction may last as long by default.
log = logging.getLogger("newsift.ingest")


class OpenTransactions:
    """How many posts each partition holds back behind an open transaction, and since when.

    Each fetch updates it, and time counts between fetches only, so a pause does not count. A
    consumer that reads uncommitted records sees everything and no stable offset.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # The stable offset of each partition that is held back, and since when.
        self._first_seen: dict[TopicPartition, tuple[int, float]] = {}
        self._logged: set[TopicPartition] = set()

    def observe(self, consumer: Any) -> None:
        places = consumer.assignment()
        for place in self._first_seen.keys() - places:
            del self._first_seen[place]
            self._metrics.open_transaction(place.topic, place.partition, 0, 0.0)
        for place in places:
            stable, high = consumer.last_stable_offset(place), consumer.highwater(place)
            if high is None or stable is None or stable < 0:
                continue  # not fetched yet, or read uncommitted
            seconds = 0.0
            if high > stable:
                seconds = self._seconds(place, stable, consumer.last_poll_timestamp(place) / 1000)
            else:
                self._first_seen.pop(place, None)
            self._metrics.open_transaction(place.topic, place.partition, high - stable, seconds)

    def _seconds(self, place: TopicPartition, stable: int, at: float) -> float:
        """How long the transaction at this offset has been open, as seen here."""
        if self._first_seen.get(place, (None, at))[0] != stable:
            self._first_seen[place] = stable, at
            self._logged.discard(place)
        seconds = at - self._first_seen[place][1]
        if seconds >= LOG_AFTER_S and place not in self._logged:
            self._logged.add(place)
            log.warning(
                "a transaction is open in %s, partition %d, from offset %d on: what follows is "
                "read when its producer or the broker ends it", place.topic, place.partition,
                stable,
            )  # fmt: skip
        return seconds
