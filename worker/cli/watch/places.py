"""Places: where to begin to read the matches, and where to go on after what was deleted."""

import logging
from collections.abc import Sequence
from typing import Any

from aiokafka import TopicPartition

from worker.cli.watch.counts import WatchCounts
from worker.kafka.consumers import Offsets

log = logging.getLogger("newsift.watch")


async def first_places(
    consumer: Any, places: Sequence[TopicPartition], since: int | None
) -> Offsets:
    """The first records `since` then, or else those that come next."""
    ends: Offsets = await consumer.end_offsets(places)
    if since is not None:
        hits = await consumer.offsets_for_times(dict.fromkeys(places, since))
        ends |= {place: hit.offset for place, hit in hits.items() if hit is not None}
    return ends


async def first_kept(
    consumer: Any, lost: Offsets, counts: WatchCounts, reader: str = ""
) -> Offsets:
    """The first records that are there, where the next ones were deleted: counted, and logged."""
    first: Offsets = await consumer.beginning_offsets(list(lost))
    for place, offset in lost.items():
        gone = max(first[place] - offset, 1)
        counts.lost.inc(gone)
        log.error("%s%d offsets of %s-%d were deleted before they were read", reader, gone, *place)
    return first
