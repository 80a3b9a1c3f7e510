"""Match records of the topic: what is delivered of them, first offsets, and metrics."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from aiokafka import TopicPartition
from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

from newsift.cli.matches import MatchFilter
from newsift.files.rows import parse_match_record
from worker.kafka.consumers import Offsets
from worker.match.records import Match, MatchRecord, encode_json
from worker.metrics.registry import MetricSpec, register_metric
from worker.posts.outcome import Unreadable

MATCH_ID = re.compile(r"[!-~]{1,100}")  # ids that may be sent in an HTTP header
log = logging.getLogger("newsift.watch")
PREFIX = "newsift_watch_"
WATCH_METRICS = (
    MetricSpec(
        f"{PREFIX}posted_total",
        Counter,
        "Matches that the receiver took, or refused for good",
        ("end",),
        ("taken", "refused"),
    ),
    MetricSpec(f"{PREFIX}attempts_failed_total", Counter, "Attempts that are made again"),
    MetricSpec(
        f"{PREFIX}records_unread_total", Counter, "Records of the topic that are not matches"
    ),
    MetricSpec(f"{PREFIX}offsets_lost_total", Counter, "Offsets deleted before they were read"),
    MetricSpec(f"{PREFIX}events_waiting", Gauge, "Events of which something waits"),
    MetricSpec(f"{PREFIX}lag", Gauge, "Records of its partitions that are not done"),
    MetricSpec(f"{PREFIX}streams", Gauge, "Who listens to /matches"),
)


class WatchMetrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        metrics = [register_metric(row, self._registry) for row in WATCH_METRICS]
        self.outcomes, self.failures, self.unread, self.offsets_lost = metrics[:4]
        self.waiting, self.lag, self.streams = metrics[4:]
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        return generate_latest(self._registry)


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """The delivery of one record to the receiver, for one of its events.

    `value` is the original record, shared by the calls of its events.
    """

    place: TopicPartition
    offset: int
    match_id: str  # of its best match: the same however often it is delivered
    event: str
    value: bytes
    filters: MatchFilter

    @property
    def body(self) -> bytes:
        """The record as JSON, with the matches of this event alone."""
        record = parse_match_record(self.value)
        assert record is not None
        matches = [m for m in self.filters.select(record) if m.event == self.event]
        return with_matches(record, matches)


def webhook_calls(record: Any, filters: MatchFilter) -> dict[str, WebhookCall] | None:
    """By event; None if it is not a match record."""
    match_record = match_record_in(record)
    if match_record is None:
        return None
    place, calls = partition_of(record), dict[str, WebhookCall]()
    for match in filters.select(match_record):
        if match.event not in calls:
            name, event = match.match_id, match.event
            calls[event] = WebhookCall(place, record.offset, name, event, record.value, filters)
    return calls


def partition_of(record: Any) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


def with_matches(record: MatchRecord, matches: list[Match]) -> bytes:
    return encode_json(msgspec.structs.replace(record, matches=matches))


def match_record_in(record: Any) -> MatchRecord | None:
    """None if the message holds no match record with usable ids."""
    match_record = None if isinstance(record, Unreadable) else parse_match_record(record.value)
    if match_record is None or not all(
        MATCH_ID.fullmatch(match.match_id) for match in match_record.matches
    ):
        return None
    return match_record


async def first_offsets(
    consumer: Any, places: Sequence[TopicPartition], since: int | None
) -> Offsets:
    """The first offsets since a time, or the ends."""
    ends: Offsets = await consumer.end_offsets(places)
    if since is not None:
        hits = await consumer.offsets_for_times(dict.fromkeys(places, since))
        ends |= {place: hit.offset for place, hit in hits.items() if hit is not None}
    return ends


async def first_available(
    consumer: Any, unavailable: Offsets, metrics: WatchMetrics, log_prefix: str = ""
) -> Offsets:
    """The first offsets that exist, where records were deleted; counted and logged."""
    first: Offsets = await consumer.beginning_offsets(list(unavailable))
    for place, offset in unavailable.items():
        count = max(first[place] - offset, 1)
        metrics.offsets_lost.inc(count)
        log.error(
            "%s%d offsets of %s-%d were deleted before they were read", log_prefix, count, *place
        )
    return first
