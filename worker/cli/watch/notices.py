"""From a record of the topic of matches to what a receiver or a listener is sent of it."""

import re
from dataclasses import dataclass
from typing import Any

import msgspec
from aiokafka import TopicPartition

from worker.cli.wanted import Wanted
from worker.files.matches import read_match
from worker.match.records import Match, MatchRecord, encode_json
from worker.posts.unreadable import Unreadable

NAME = re.compile(r"[!-~]{1,100}")  # a match_id that can stand in a header


@dataclass(frozen=True, slots=True)
class Notice:
    """What is to be delivered of one record to one event's followers.

    It holds the record as it came, which all events of it share, however many they are.
    """

    place: TopicPartition
    offset: int
    match_id: str  # of its best match: the same however often it is delivered
    event: str
    value: bytes
    wanted: Wanted

    @property
    def body(self) -> bytes:
        """The record as JSON, its matches being those of the event alone."""
        record = read_match(self.value)
        assert record is not None
        own = [match for match in self.wanted.of(record) if match.event == self.event]
        return narrowed(record, own)


def notices_of(record: Any, wanted: Wanted) -> dict[str, Notice] | None:
    """What to deliver of a record, by event; None where it is no match record."""
    found = record_in(record)
    if found is None:
        return None
    place, notices = partition_of(record), dict[str, Notice]()
    for match in wanted.of(found):
        if match.event not in notices:
            name, event = match.match_id, match.event
            notices[event] = Notice(place, record.offset, name, event, record.value, wanted)
    return notices


def partition_of(record: Any) -> TopicPartition:
    """The partition that a message was read from."""
    return TopicPartition(record.topic, record.partition)


def narrowed(record: MatchRecord, matches: list[Match]) -> bytes:
    """A match record with these of its matches alone, as JSON on one line."""
    return encode_json(msgspec.structs.replace(record, matches=matches))


def record_in(record: Any) -> MatchRecord | None:
    """The match record that a message holds, if it does."""
    found = None if isinstance(record, Unreadable) else read_match(record.value)
    if found is None or not all(NAME.fullmatch(match.match_id) for match in found.matches):
        return None
    return found
