"""Deletion records, what stays of a post that was deleted, and what the topic of matches says."""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

import msgspec

from newsift.files.rows import parse_match_record
from worker.config import Config
from worker.kafka.reading import StoredMessage, TopicReader
from worker.match.records import MatchRecord, instance_of
from worker.posts.outcome import Post, PostId

SCHEMA = "newsift.deletion/1"
MARK = b'"deleted_at"'
NAMED_BY_INSTANCE = "mastodon"  # whose instances may give one id to two posts


class SourcedPost(NamedTuple):
    """A post by the instance that gave its id; empty but for Mastodon, where it may be unknown."""

    platform: str
    id: str
    instance: bytes

    @property
    def post_id(self) -> PostId:
        return self.platform, self.id


def sourced(post_id: PostId, instance: bytes) -> SourcedPost:
    platform, id = post_id
    return SourcedPost(platform, id, instance if platform == NAMED_BY_INSTANCE else b"")


class PostName(msgspec.Struct, frozen=True):
    id: str
    platform: str

    @property
    def post_id(self) -> PostId:
        return self.platform, self.id


class DeletionRecord(msgspec.Struct, frozen=True):
    """It stands on the topic of matches, after the matches of the post."""

    post: PostName
    deleted_at: str  # RFC 3339 in UTC
    matches: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # set in a match record alone


_read = msgspec.json.Decoder(DeletionRecord).decode


def parse_deletion(value: bytes | None) -> DeletionRecord | None:
    """None for any other record."""
    if value is None or MARK not in value:
        return None
    try:
        record = _read(value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return record if record.matches is msgspec.UNSET else None


def encode_deletion(post_id: PostId, deleted_at: str) -> bytes:
    platform, id = post_id
    return msgspec.json.encode(DeletionRecord(PostName(id, platform), deleted_at))


class DeletedPosts:
    """Hashes alone: a million take the same room whatever their ids."""

    def __init__(self, least: int | None = None) -> None:
        """With `least`, at least so many of the newest are remembered, and no more than twice."""
        self._young, self._old, self._least = set[int](), set[int](), least

    def add(self, post: SourcedPost) -> None:
        """Without an instance it holds for all of them."""
        self._young |= {hash(post), hash(post.post_id)} if post.instance else {hash(post)}
        if self._least is not None and len(self._young) >= 2 * self._least:
            self._young, self._old = set(), self._young

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def __contains__(self, post_id: PostId) -> bool:
        """Whether one of any instance was deleted."""
        return self._has(post_id) or self._has((*post_id, b""))

    def covers(self, post: SourcedPost) -> bool:
        """Whether the post of this instance was deleted."""
        return self._has(post) or self._has((*post.post_id, b""))

    def _has(self, name: tuple[object, ...]) -> bool:
        return hash(name) in self._young or hash(name) in self._old


def without_content(post: Post) -> Post:
    """The post without its text, author and links; what a person may still count by stays."""
    return Post(post.id, post.platform, "", created_at=post.created_at, lang=post.lang)


def has_content(post: Post) -> bool:
    return post != without_content(post)


def redact(record: MatchRecord) -> MatchRecord:
    """What commands, desk and files show of the matches of a deleted post."""
    matches = [msgspec.structs.replace(match, why=[]) for match in record.matches]
    return msgspec.structs.replace(
        record, post=without_content(record.post), matches=matches, deleted=True
    )


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
            deleted.add(sourced(deletion.post.post_id, instance_of(message)))
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
