"""Deletion records of posts that matched: as their platforms report, or of one author."""

import time
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from encoder.errors import InputError
from newsift.files.rows import parse_match_record
from newsift.operations.cluster_status import group_errors, read_commits, retry_coordinator
from newsift.operations.deletion_events import read_deletion
from newsift.operations.deletions import (
    NAMED_BY_INSTANCE,
    SCHEMA,
    DeletedPosts,
    PostName,
    SourcedPost,
    encode_deletion,
    parse_deletion,
    read_deletions,
    sourced,
)
from newsift.operations.labels import LabelTopic, stored_labels, without_deleted
from newsift.operations.messages import ProgressLine, capture, notify
from newsift.operations.times import now_text
from newsift.statistics.labels import Label
from worker.config import Config
from worker.errors import ConflictError
from worker.kafka.reading import Offsets, StoredMessage, TopicReader, records_between
from worker.kafka.sending import Outbox, sending
from worker.match.records import instance_of
from worker.posts.outcome import INSTANCE_HEADER, Post
from worker.posts.times import rfc3339
from worker.text import plural

GROUP = "newsift-prune"
MAX_EARLY = 2**17  # deletions that are remembered for a post that matches later
COMMIT_INTERVAL_S = 5.0
MAX_GONE_POSTS = 2**16  # of the posts in memory, those that the topic may no longer have
MAX_LABEL_CONFLICTS = 3
CASED_PLATFORMS = ("bluesky", "plain")  # whose authors differ by the case of their letters


class PruneState:
    """Which posts matched, and which of these are deleted, in whatever order this is learned.

    It holds a hash of each post that matched, the time of each deletion that has a record, and the
    newest deletions of posts that did not match.
    """

    def __init__(self, most_early: int = MAX_EARLY) -> None:
        self._matched = set[int]()
        self._deleted: dict[int, str] = {}
        self._early = OrderedDict[int, str]()
        self._due: dict[int, tuple[SourcedPost, str]] = {}
        self._most_early = most_early

    def __len__(self) -> int:
        return len(self._matched) + len(self._deleted)

    def forget_matches(self) -> None:
        """Before the topic of matches is read again."""
        self._matched.clear()
        self._deleted.clear()

    def add_match(self, post: SourcedPost) -> None:
        """A match after the deletion is followed by another deletion record."""
        key = hash(post)
        self._matched.add(key)
        if (at := self._early.pop(key, None) or self._deleted.get(key)) is not None:
            self._delete(post, at)

    def add_record(self, post: SourcedPost, deleted_at: str) -> None:
        """A deletion record that the topic of matches has."""
        key = hash(post)
        self._deleted[key] = deleted_at
        self._due.pop(key, None)

    def add_event(self, post: SourcedPost, deleted_at: str) -> bool:
        """A deletion by the platform; whether it is news of a post that matched."""
        key = hash(post)
        if key in self._deleted:
            return False
        if key in self._matched:
            self._delete(post, deleted_at)
            return True
        self._early[key] = deleted_at
        if len(self._early) > self._most_early:
            self._early.popitem(last=False)
        return False

    def take_due(self) -> list[tuple[SourcedPost, str]]:
        """The deletion records to write now, with their times."""
        due, self._due = list(self._due.values()), {}
        return due

    def _delete(self, post: SourcedPost, at: str) -> None:
        self._deleted[hash(post)] = at
        self._due[hash(post)] = post, at


class MatchedPost(msgspec.Struct):
    """What a match record says of its post's name."""

    post: PostName
    matches: msgspec.Raw


MATCHED_POST = msgspec.json.Decoder(MatchedPost)


@dataclass
class PruneCounts:
    deletions: int = 0  # that were read
    written: int = 0
    unmatched: int = 0  # deletions of posts that did not match, or have a record
    unknown: int = 0  # deletions that do not say whose post they are of
    labels: int = 0

    def __str__(self) -> str:
        counts = {
            "of posts without a match, or pruned before": self.unmatched,
            "left out, as their instance is unknown": self.unknown,
            "labels without text now": self.labels,
        }
        more = (f"; {what}: {count:,}" for what, count in counts.items() if count)
        read = f"{plural(self.deletions, 'deletion')} read; " if self.deletions else ""
        return f"{read}deletion records written: {self.written:,}{''.join(more)}"


class Pruner:
    """Reads deletions up to where the workers have committed: matches before that are written."""

    def __init__(
        self, cluster: TopicReader, admin: Any, outbox: Outbox, config: Config,
        since: int | None = None,
    ) -> None:  # fmt: skip
        """From `since` on, in milliseconds; else from where the group has committed."""
        self.counts = PruneCounts()
        self._cluster, self._admin, self._outbox, self._config = cluster, admin, outbox, config
        self._posts, self._matches = config.topics.posts, config.topics.matches
        own_config = replace(config, kafka=replace(config.kafka, group=GROUP))
        self._offsets = self._committed = read_commits(admin, own_config)
        if since is not None:
            self._offsets = cluster.offsets_at(self._posts, since)
        self._commit_at = 0.0
        self._labels = DeletedLabels(cluster, config)
        self._state = PruneState()
        self._forget_matches()

    def read_new(self) -> int:
        """Writes the records of new deletions; returns how many messages wait for the workers."""
        first, end = self._cluster.beginnings(self._posts), self._cluster.ends(self._posts)
        with group_errors(self._config):
            commits = read_commits(self._admin, self._config)
        ready = {part: min(commits.get(part, first[part]), end[part]) for part in end}
        self._read_matches()  # now, so that it has all matches of the posts before the commits
        offsets = self._offsets_within(first, end)
        progress = ProgressLine()
        for batch in self._cluster.read(self._posts, offsets, ready):
            for message in batch:
                self._add_event(message)
                offsets[message.partition] = message.offset + 1
            progress.add(len(batch), "messages")
            if time.monotonic() > self._commit_at:
                self._write_due()
                self._commit(offsets)
        self._write_due()
        self._commit({part: max(offset, ready[part]) for part, offset in offsets.items()})
        self.counts.labels += self._labels.redact(self._deleted)
        return records_between(ready, end)

    def _offsets_within(self, first: Offsets, end: Offsets) -> Offsets:
        """Where to go on; a partition of a topic that was made again is read from its beginning."""
        known = {part: at for part, at in self._offsets.items() if at <= end.get(part, 0)}
        offsets = first | known
        if lost := records_between(offsets, first):
            notify(f"{self._posts}: {lost:,} messages were gone before their deletions were read")
        return {part: max(offset, first[part]) for part, offset in offsets.items()}

    def _forget_matches(self) -> None:
        self._state.forget_matches()
        self._deleted = DeletedPosts()
        self._match_offsets: Offsets = {}
        self._match_topic = self._cluster.identity(self._matches)

    def _read_matches(self) -> None:
        """What is new; all again if the topic was made again or has lost most of its records."""
        first, end = self._cluster.beginnings(self._matches), self._cluster.ends(self._matches)
        is_new = self._cluster.identity(self._matches) != self._match_topic
        is_new = is_new or any(end.get(part, 0) < at for part, at in self._match_offsets.items())
        if is_new or len(self._state) > 2 * records_between(first, end) + MAX_GONE_POSTS:
            self._forget_matches()
        for batch in self._cluster.read(self._matches, first | self._match_offsets, end):
            for message in batch:
                self._add_match_record(message)
        self._match_offsets = end

    def _add_match_record(self, message: StoredMessage) -> None:
        if (record := parse_deletion(message.value)) is not None:
            post = sourced(record.post.post_id, instance_of(message))
            self._state.add_record(post, record.deleted_at)
            self._deleted.add(post)
            return
        with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            name = MATCHED_POST.decode(message.value or b"").post
            self._state.add_match(sourced(name.post_id, instance_of(message)))

    def _add_event(self, message: StoredMessage) -> None:
        deletion = read_deletion(message.value, self._config.limits)
        if deletion is None:
            return
        self.counts.deletions += 1
        post = sourced(deletion.post_id, instance_of(message))
        if post.platform == NAMED_BY_INSTANCE and not post.instance:
            self.counts.unknown += 1
        elif not self._state.add_event(post, deletion.at or rfc3339(max(message.timestamp, 0))):
            self.counts.unmatched += 1

    def _write_due(self) -> None:
        for post, at in self._state.take_due():
            send_deletion(self._outbox, self._matches, post, at)
            self._deleted.add(post)
            self.counts.written += 1

    def _commit(self, offsets: Offsets) -> None:
        """Once the broker has all records of the deletions before the offsets."""
        self._outbox.settle()
        self._offsets, self._commit_at = dict(offsets), time.monotonic() + COMMIT_INTERVAL_S
        if self._offsets != self._committed:
            commit_offsets(self._admin, GROUP, self._posts, self._offsets)
            self._committed = self._offsets


def send_deletion(outbox: Outbox, topic: str, post: SourcedPost, deleted_at: str) -> None:
    """Its key is that of the post's matches, so that it stands in their partition."""
    headers = [("schema", SCHEMA.encode())]
    headers += [(INSTANCE_HEADER, post.instance)] if post.instance else []
    outbox.send(topic, encode_deletion(post.post_id, deleted_at), post.id.encode(), headers)


def commit_offsets(admin: Any, group: str, topic: str, offsets: Offsets) -> None:
    """For a group without members."""
    from kafka import TopicPartition
    from kafka.structs import OffsetAndMetadata

    places = {TopicPartition(topic, p): OffsetAndMetadata(at, "", -1) for p, at in offsets.items()}

    def commit() -> None:
        for error in admin.alter_group_offsets(group, places).values():
            if error.errno:
                raise error(group)

    retry_coordinator(commit)


class DeletedLabels:
    """The labels of deleted posts; their topic is compacted, where a text would stay for ever."""

    def __init__(self, cluster: TopicReader, config: Config) -> None:
        self._cluster, self._topic = cluster, config.topics.labels
        self._labels = LabelTopic(cluster, config)
        cluster.exists(self._topic)  # or raises, before anything is written
        self._last_state: object = None  # that was looked at, and for how many deletions
        self._last_count = 0

    def redact(self, deleted: DeletedPosts) -> int:
        """Publishes them without text, author and links; returns how many."""
        if not len(deleted) or not self._cluster.exists(self._topic):
            return 0
        for _ in range(MAX_LABEL_CONFLICTS):
            with capture():  # which labels are refused is for those who use them
                state = self._labels.state()
            if state is self._last_state and len(deleted) == self._last_count:
                return 0
            labels = (label for _, label in state.records if isinstance(label, Label))
            pairs = ((label, without_deleted(label, deleted)) for label in labels)
            bare = {new.key: new.value for old, new in pairs if new != old}
            with suppress(ConflictError):  # somebody judges meanwhile
                if bare:
                    self._labels.publish(bare, state)
                self._last_state, self._last_count = state, len(deleted)
                return len(bare)
        return 0


@dataclass(frozen=True, slots=True)
class Author:
    """Of Mastodon the name and its instance, of Bluesky the DID, else the name in the records."""

    platform: str
    name: str

    @classmethod
    def parse(cls, platform: str, text: str) -> Self:
        """Refuses a name that may be of several people."""
        name = text.strip().removeprefix("@")
        if platform == NAMED_BY_INSTANCE and not all(name.partition("@")):
            raise InputError(
                f"--author {text!r}: names of Mastodon's instances collide; give name@instance"
            )
        if platform == "bluesky" and not name.startswith("did:"):
            raise InputError(f"--author {text!r}: a handle may pass on; give the DID, did:plc:…")
        if not name:
            raise InputError("--author: empty; give the name that the matches have")
        return cls(platform, name if platform in CASED_PLATFORMS else name.casefold())

    def wrote(self, post: Post, instance: bytes) -> bool:
        name = post.author or ""
        if post.platform != self.platform or not name:
            return False
        if self.platform == NAMED_BY_INSTANCE and "@" not in name:
            name = f"{name}@{instance.decode('utf-8', 'replace') or _host(post.url)}"
        return (name if self.platform in CASED_PLATFORMS else name.casefold()) == self.name


def _host(url: str | None) -> str:
    try:
        return urlsplit(url or "").hostname or ""
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class AuthorPosts:
    posts: frozenset[SourcedPost]  # without a deletion record
    pruned: int  # posts that have one


def read_author_posts(cluster: TopicReader, config: Config, author: Author) -> AuthorPosts:
    """The author's posts that matched or have a label."""
    deleted, posts = read_deletions(cluster, config), set[SourcedPost]()
    for batch in cluster.read(config.topics.matches):
        for message in batch:
            record, instance = parse_match_record(message.value), instance_of(message)
            if record is not None and author.wrote(record.post, instance):
                posts.add(sourced(record.post.post_id, instance))
    matched = {post.post_id for post in posts}
    records = stored_labels(cluster, config).records
    labels = (label for _, label in records if isinstance(label, Label))
    posts |= {
        sourced(label.post_id, b"")
        for label in labels
        if label.post_id not in matched and author.wrote(label.post, b"")
    }
    new = frozenset(post for post in posts if not deleted.covers(post))
    return AuthorPosts(new, len(posts) - len(new))


def prune_posts(cluster: TopicReader, config: Config, posts: Iterable[SourcedPost]) -> PruneCounts:
    counts, deleted, now = PruneCounts(), DeletedPosts(), now_text()
    with sending(config) as outbox:
        for post in posts:
            send_deletion(outbox, config.topics.matches, post, now)
            deleted.add(post)
            counts.written += 1
        outbox.settle()
    counts.labels = DeletedLabels(cluster, config).redact(deleted)
    return counts
