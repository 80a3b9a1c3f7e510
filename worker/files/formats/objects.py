"""One JSON object of a file as messages: a post of any platform, or a page of several."""

from collections.abc import Iterator
from typing import Any

import msgspec

from worker.files.formats import bluesky, mastodon, reddit, telegram, twarc
from worker.files.formats.columns import FileOptions, Picked
from worker.files.messages import OBJECT, FileMessage, FormatError, Maker
from worker.files.oddities import text_id
from worker.posts.checks import diagnosis, refusal
from worker.posts.outcome import NO_POST, PassedOver, Post, Reason, Rejected
from worker.posts.shape import shape

Raw = msgspec.Raw
ABSENT = Raw()
PLATFORMS = {"x": "twarc", "bluesky": "bluesky", "mastodon": "mastodon"}
FORMATS = ("twarc", "bluesky", "mastodon", "reddit", "telegram")
Unfolded = Iterator[bytes | PassedOver]
KINDS = [msgspec.json.encode(kind) for kind in (reddit.LISTING, reddit.SUBMISSION, reddit.COMMENT)]
FAULTS = (msgspec.MsgspecError, ValueError, RecursionError)


class ObjectKeys(msgspec.Struct, gc=False):
    """The keys that tell what an object of a file is, their values unread."""

    data: Raw = ABSENT
    meta: Raw = ABSENT
    kind: Raw = ABSENT
    posts: Raw = ABSENT
    statuses: Raw = ABSENT
    uri: Raw = ABSENT
    record: Raw = ABSENT
    type: Raw = ABSENT
    object: Raw = ABSENT
    subreddit: Raw = ABSENT
    body: Raw = ABSENT
    selftext: Raw = ABSENT
    date: Raw = ABSENT
    date_unixtime: Raw = ABSENT
    text_entities: Raw = ABSENT

    def reddit(self) -> bool:
        """Whether it is a submission or a comment."""
        return bool(self.subreddit and (self.body or self.selftext))

    def telegram(self) -> bool:
        """Whether it is a message of an exported chat."""
        return bool(self.date and self.type and (self.text_entities or self.date_unixtime))


KEYS = msgspec.json.Decoder(ObjectKeys)
LIST = msgspec.json.Decoder(list[Raw])
ANYTHING = msgspec.json.Decoder(dict[str, Any])


class Objects:
    """Makes messages of the JSON objects of one input."""

    def __init__(self, maker: Maker, wanted: FileOptions) -> None:
        self._maker, self._wanted = maker, wanted
        self._only = wanted.format if wanted.format in FORMATS else None

    def messages(self, value: bytes, number: int, around: bytes = b"") -> Iterator[FileMessage]:
        """The posts in an object; one that is none says why."""
        value = telegram.mended(value) if around else value
        if self._wanted.names_columns:
            yield self._by_columns(value, number)
            return
        read = self._maker.post(value, number, value)
        if read.found == NO_POST or _platform(read) in PLATFORMS:
            yield self._allowed(read, PLATFORMS.get(_platform(read)))
            return
        yield from self._unfolded(read, around)

    def _unfolded(self, read: FileMessage, around: bytes) -> Iterator[FileMessage]:
        """The posts in what is no post of a platform by itself: a page, an export, a plain post."""
        value, number = read.raw, read.offset + 1
        try:
            kind, parts = (None, None) if self._refused(value) else _parts(value, around)
        except FAULTS:
            kind, parts = None, None
        if parts is None:
            yield self._plain(read)
            return
        try:
            for part in parts:
                if isinstance(part, PassedOver):
                    yield self._allowed(self._maker.none(part, number, value), kind)
                else:
                    one = self._maker.post(part, number, part)
                    yield self._allowed(one, kind or PLATFORMS.get(_platform(one)))
        except FAULTS as error:
            yield self._broken(value, number, error)

    def _refused(self, value: bytes) -> bool:
        return refusal(value, self._maker.limits) is not None

    def _broken(self, value: bytes, number: int, error: Exception) -> FileMessage:
        if isinstance(error, ValueError) and not isinstance(error, msgspec.MsgspecError):
            return self._maker.bad(number, value, str(error))
        return self._maker.known(diagnosis(value, error), b"", number, value)

    def _plain(self, read: FileMessage) -> FileMessage:
        """A plain post, named by its text where it has no id."""
        if isinstance(read.found, Rejected) and read.found.reason is Reason.NO_ID:
            whole = OBJECT.decode(read.raw)
            if shape(read.raw) == "plain" and bytes(whole.get("text", ABSENT)).startswith(b'"'):
                text = msgspec.json.decode(whole["text"], type=str)
                whole["id"] = Raw(msgspec.json.encode(text_id(text)))
                value = msgspec.json.encode(whole)
                read = self._maker.post(value, read.offset + 1, read.raw)
        if self._only == "twarc" and _platform(read) == "plain":
            read = self._maker.post(twarc.enveloped(read.raw), read.offset + 1, read.raw)
        return self._allowed(read, PLATFORMS.get(_platform(read)))

    def _allowed(self, read: FileMessage, kind: str | None) -> FileMessage:
        """The message, unless it is of another platform than the one that is wanted."""
        if self._only in (None, kind) or isinstance(read.found, Rejected):
            return read
        if isinstance(read.found, PassedOver) and kind is None:
            return read  # nobody can tell whose it is
        told = f"value: is no post of --format {self._only}"
        return self._maker.bad(read.offset + 1, read.raw, told)

    def _by_columns(self, value: bytes, number: int) -> FileMessage:
        if (bad := refusal(value, self._maker.limits)) is not None:
            return self._maker.known(bad, b"", number, value)
        try:
            row = ANYTHING.decode(value)
            picked = Picked.among(list(row), self._wanted)
            if not isinstance(row[picked.text], str | None):
                raise FormatError(f"{picked.text}: is no text; name another with --text-column")
            post = picked.post(row, self._maker.oddities)
        except FormatError as error:
            return self._maker.bad(number, value, f"value: {error}", Reason.NO_TEXT)
        except FAULTS as error:
            return self._maker.known(diagnosis(value, error), b"", number, value)
        return self._maker.post(post, number, value)


def _platform(message: FileMessage) -> str:
    return message.found.platform if isinstance(message.found, Post) else ""


def _parts(value: bytes, around: bytes) -> tuple[str | None, Unfolded | None]:
    """Of which platform an object is, and the posts in it; None and None for no known one."""
    keys = KEYS.decode(value)
    if bytes(keys.data).startswith(b"["):
        return _of_page(value, keys.data)
    if bytes(keys.data).startswith(b"{") and bytes(keys.kind) in KINDS:
        return "reddit", map(reddit.submission_or_comment, reddit.things_of(value))
    if keys.reddit():
        return "reddit", iter([reddit.submission_or_comment(value)])
    if keys.uri and keys.record:
        return "bluesky", iter([bluesky.event_of(value)])
    if bytes(keys.posts).startswith(b"["):
        return "bluesky", map(bluesky.event_of, map(bytes, LIST.decode(keys.posts)))
    if bytes(keys.statuses).startswith(b"["):
        return None, map(bytes, LIST.decode(keys.statuses))
    return _of_export(value, keys, around)


def _of_page(value: bytes, data: Raw) -> tuple[str | None, Unfolded]:
    """Tweets as `data`, or what an archive of Reddit answers in the same place."""
    first = next(iter(LIST.decode(data)), None)
    if first is not None and KEYS.decode(first).reddit():
        return "reddit", map(reddit.submission_or_comment, map(bytes, LIST.decode(data)))
    return "twarc", twarc.tweets_of(value)


def _of_export(value: bytes, keys: ObjectKeys, around: bytes) -> tuple[str | None, Unfolded | None]:
    if keys.telegram():
        return "telegram", iter([telegram.message_of(value, around)])
    if keys.type and keys.object:
        return "mastodon", iter([mastodon.status_of(value)])
    if b'"result_count"' in bytes(keys.meta) and not keys.data:
        return "twarc", iter(())  # a page without tweets
    return None, None
