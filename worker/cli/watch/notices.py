"""From a record of the topic of matches to what a receiver or a listener is sent of it."""

from typing import Any

import msgspec
from aiokafka import TopicPartition

from worker.cli.wanted import Wanted
from worker.cli.watch.lanes import Notice
from worker.files.matches import read_match
from worker.match.records import Match, MatchRecord, encode_json
from worker.posts.unreadable import Unreadable


def notices_of(record: Any, wanted: Wanted) -> dict[str, Notice] | None:
    """What to deliver of a record, by event; None where it is no match record."""
    found = record_in(record)
    if found is None:
        return None
    of_events: dict[str, list[Match]] = {}
    for match in wanted.of(found):
        of_events.setdefault(match.event, []).append(match)
    place = TopicPartition(record.topic, record.partition)
    return {
        event: Notice(place, record.offset, own[0].match_id, narrowed(found, own))
        for event, own in of_events.items()
    }


def narrowed(record: MatchRecord, matches: list[Match]) -> bytes:
    """A match record with these of its matches alone, as JSON on one line."""
    return encode_json(msgspec.structs.replace(record, matches=matches))


def record_in(record: Any) -> MatchRecord | None:
    """The match record that a message holds, if it does."""
    return None if isinstance(record, Unreadable) else read_match(record.value)
