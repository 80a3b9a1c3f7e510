"""What the topic of matches says of deleted posts."""

from collections.abc import Iterable
from math import inf

import msgspec

from newsift.files.deletions import DeletedPosts, parse_deletion, redact, sourced
from newsift.files.rows import parse_match_record
from worker.config import Config
from worker.kafka.reading import StoredMessage, TopicReader
from worker.match.records import MatchRecord, instance_of


def read_deletions(
    cluster: TopicReader, config: Config, since: int | None = None, until: float = inf
) -> DeletedPosts:
    """Reads the topic once, from a time in milliseconds on; it may be missing.

    It stops early when the monotonic clock reaches `until`.

    `newsift prune` writes the deletion after each match of the post, so that whoever reads matches
    from a time on needs no earlier deletions.
    """
    deleted, topic = DeletedPosts(), config.topics.matches
    if cluster.exists(topic):
        start = None if since is None else cluster.offsets_at(topic, since)
        for batch in cluster.read(topic, start, until=until):
            add_deletions(batch, deleted)
    return deleted


def add_deletions(batch: Iterable[StoredMessage], deleted: DeletedPosts) -> int:
    """The number of deletion records in the batch."""
    count = 0
    for message in batch:
        if (deletion := parse_deletion(message.value)) is not None:
            deleted.add(sourced(deletion.post_id, instance_of(message)))
            count += 1
    return count


def parse_visible(
    message: StoredMessage, deleted: DeletedPosts
) -> tuple[bytes, MatchRecord | None]:
    """A match record and its bytes, without its content if the post was deleted."""
    value, record = message.value or b"", parse_match_record(message.value)
    if record is None:
        return value, None
    if not deleted.covers(sourced(record.post.post_id, instance_of(message))):
        return value, record
    record = redact(record)
    return msgspec.json.encode(record), record
