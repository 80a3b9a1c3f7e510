"""JSON objects of files as messages: the posts of each platform, in the form of its API."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from newsift.files.messages import OBJECT, FileMessage, FormatError, Maker, plain_post, text_id
from newsift.files.tables import FileOptions, PostColumns
from worker.posts.checks import diagnose, refusal
from worker.posts.outcome import NO_POST, PassedOver, Post, Reason, Rejected
from worker.posts.shape import recognise_form
from worker.posts.x import Tweet

Raw = msgspec.Raw
decode = msgspec.json.decode
SCHEME = "at://"


class ViewedAuthor(msgspec.Struct):
    did: str | None = None


class View(msgspec.Struct):
    """A post as the API shows it (app.bsky.feed.defs#postView)."""

    uri: str
    record: Raw
    author: ViewedAuthor | None = None


def event_of(view: bytes) -> bytes:
    """The post as a Jetstream event."""
    post_view = decode(view, type=View)
    did, _, path = post_view.uri.removeprefix(SCHEME).partition("/")
    collection, _, key = path.partition("/")
    if post_view.author is not None and post_view.author.did:
        did = post_view.author.did  # where the address has a handle
    commit = {
        "operation": "create",
        "collection": collection,
        "rkey": key,
        "record": post_view.record,
    }
    return msgspec.json.encode({"did": did, "kind": "commit", "commit": commit})


WRITTEN = ("Create", "Update")


class WrittenNote(msgspec.Struct):
    id: str | None = None
    content: str | None = None
    summary: str | None = None
    published: str | None = None
    url: str | None = None
    attributedTo: str | None = None
    contentMap: dict[str, str] | None = None


class Activity(msgspec.Struct):
    type: str
    object: msgspec.Raw


def status_of(activity: bytes) -> bytes | PassedOver:
    """The status of an activity; a shared post holds no text."""
    action = decode(activity, type=Activity)
    if action.type not in WRITTEN or not bytes(action.object).startswith(b"{"):
        return NO_POST
    note = decode(action.object, type=WrittenNote)
    spoken = next(iter(note.contentMap), None) if note.contentMap else None
    status = {
        "id": _last(note.id), "content": note.content, "spoiler_text": note.summary,
        "account": {"acct": _last(note.attributedTo)}, "created_at": note.published,
        "language": spoken, "uri": note.id, "url": note.url,
    }  # fmt: skip
    return msgspec.json.encode(status)


def _last(address: str | None) -> str | None:
    """The last part of an address, which is the id in the API of its server."""
    return None if address is None else address.rstrip("/").rpartition("/")[2]


SITE = "https://www.reddit.com"
GONE = ("[deleted]", "[removed]")
SUBMISSION, COMMENT, LISTING = "t3", "t1", "Listing"


class Thing(msgspec.Struct):
    """A submission (`title`, `selftext`) or a comment (`body`)."""

    id: str | None = None
    name: str | None = None
    title: str | None = None
    selftext: str | None = None
    body: str | None = None
    author: str | None = None
    created_utc: int | float | str | None = None
    permalink: str | None = None
    replies: Raw = Raw()


class Wrapped(msgspec.Struct):
    """Any object of the API."""

    kind: str
    data: Raw


class Listing(msgspec.Struct):
    children: list[Wrapped]


THING = msgspec.json.Decoder(Thing)


def things_of(listing: bytes) -> Iterator[bytes]:
    """The submissions and comments of a listing or thing, each before its replies."""
    waiting = [decode(listing, type=Wrapped)]
    while waiting:
        next_one = waiting.pop()
        if next_one.kind == LISTING:
            waiting.extend(reversed(decode(next_one.data, type=Listing).children))
        elif next_one.kind in (SUBMISSION, COMMENT):
            yield bytes(next_one.data)
            replies = bytes(THING.decode(next_one.data).replies)
            if replies.startswith(b"{"):
                waiting.append(decode(replies, type=Wrapped))


def submission_or_comment(thing: bytes) -> bytes:
    """A plain post with title and text, or the text of a comment."""
    item = THING.decode(thing)
    kind = SUBMISSION if item.body is None else COMMENT
    parts = (item.body,) if kind == COMMENT else (item.title, item.selftext)
    text = "\n\n".join(part for part in parts if part and part not in GONE)
    name = item.name or (f"{kind}_{item.id}" if item.id else None)
    url = f"{SITE}{item.permalink}" if item.permalink else None
    written = item.created_utc
    time = float(written) if isinstance(written, str) else written
    return plain_post(text, name, author=item.author, created_at=time, url=url)


CONTROL = re.compile(rb"(\\\\)|\\x(?=[0-9A-F]{2})")  # it writes \x0B, which is no JSON


class TextPart(msgspec.Struct):
    text: str = ""


class ChatMessage(msgspec.Struct):
    """`type` is "service" for a notice of the chat itself."""

    id: int | str
    type: str
    text: str | list[str | TextPart] = ""
    text_entities: list[TextPart] | None = None
    sender: str | None = msgspec.field(default=None, name="from")
    from_id: str | int | None = None
    date: str | None = None
    date_unixtime: str | int | None = None


class Chat(msgspec.Struct):
    id: int | str | None = None


def message_of(message: bytes, around: bytes) -> bytes | PassedOver:
    """A plain post. Ids of messages are unique within a chat only, so the chat's id is added."""
    content = decode(message, type=ChatMessage)
    if content.type != "message":
        return NO_POST
    parts = [content.text] if isinstance(content.text, str) else content.text
    text = "".join(part if isinstance(part, str) else part.text for part in parts)
    chat = _chat(around)
    name = f"{content.id}" if chat is None else f"{chat}/{content.id}"
    author = content.sender or (None if content.from_id is None else str(content.from_id))
    time = content.date_unixtime  # older exports have the date alone, without an offset
    created_at = content.date if time is None else float(time)
    return plain_post(text, name, author=author, created_at=created_at)


def mend_escapes(message: bytes) -> bytes:
    """Escapes of control characters as JSON has them."""
    if rb"\x" not in message:
        return message
    return CONTROL.sub(lambda match: match[1] or rb"\u00", message)


@lru_cache(4)
def _chat(around: bytes) -> str | None:
    """The id of the chat, from the bytes before its messages."""
    try:
        chat = decode(around.rstrip() + b"null}", type=Chat)
    except msgspec.DecodeError:
        return None
    return None if chat.id is None else str(chat.id)


MAX_COPIED = 8  # times the bytes of a page: what tweets refer to is copied to each


class Mentioned(msgspec.Struct):
    users: list[Raw] | None = None
    tweets: list[Raw] | None = None


class TweetPage(msgspec.Struct):
    data: list[Raw]
    includes: Mentioned | None = None


class Id(msgspec.Struct):
    id: str | int


TWEET = msgspec.json.Decoder(Tweet)


def tweets_of(page: bytes) -> Iterator[bytes]:
    """Each tweet as a response of its own, with its includes."""
    response = decode(page, type=TweetPage)
    includes = response.includes or Mentioned()
    users, tweets = _by_id(includes.users), _by_id(includes.tweets)
    room = MAX_COPIED * len(page)
    for tweet in response.data:
        written = TWEET.decode(tweet)
        author = users.get(str(written.author_id))
        other_ids = [str(other.id) for other in written.referenced_tweets or []]
        others = [tweets[id] for id in dict.fromkeys(other_ids) if id in tweets]
        room -= len(author or b"") + sum(map(len, others))
        if room < 0:
            raise ValueError("the page refers to too much, again and again")
        yield _alone(tweet, author, others)


def wrap_tweet(tweet: bytes) -> bytes:
    """A tweet alone, in an envelope that no other platform has."""
    return b'{"data":' + tweet + b"}"


def _alone(tweet: Raw, author: Raw | None, others: list[Raw]) -> bytes:
    brought: dict[str, list[Raw]] = {}
    if author is not None:
        brought["users"] = [author]
    if others:
        brought["tweets"] = others
    if not brought:
        return wrap_tweet(bytes(tweet))
    return msgspec.json.encode({"data": tweet, "includes": brought})


def _by_id(objects: list[Raw] | None) -> dict[str, Raw]:
    return {str(decode(each, type=Id).id): each for each in objects or []}


ABSENT = Raw()
PLATFORMS = {"x": "twarc", "bluesky": "bluesky", "mastodon": "mastodon"}
FORMATS = ("twarc", "bluesky", "mastodon", "reddit", "telegram")
Unfolded = Iterator[bytes | PassedOver]
KINDS = [msgspec.json.encode(kind) for kind in (LISTING, SUBMISSION, COMMENT)]
FAULTS = (msgspec.MsgspecError, ValueError, RecursionError)


class ObjectKeys(msgspec.Struct, gc=False):
    """The keys that tell the kind of an object."""

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
        return bool(self.subreddit and (self.body or self.selftext))

    def telegram(self) -> bool:
        return bool(self.date and self.type and (self.text_entities or self.date_unixtime))


KEYS = msgspec.json.Decoder(ObjectKeys)
LIST = msgspec.json.Decoder(list[Raw])
ANYTHING = msgspec.json.Decoder(dict[str, Any])


class Objects:
    """Makes messages of the JSON objects of one input."""

    def __init__(self, maker: Maker, options: FileOptions) -> None:
        self._maker, self._options = maker, options
        self._only = options.format if options.format in FORMATS else None

    def messages(self, value: bytes, number: int, around: bytes = b"") -> Iterator[FileMessage]:
        """An object without a post gives a message that says why."""
        value = mend_escapes(value) if around else value
        if self._options.names_columns:
            yield self._by_columns(value, number)
            return
        read = self._maker.post(value, number, value)
        if read.reading == NO_POST or _platform(read) in PLATFORMS:
            yield self._allowed(read, PLATFORMS.get(_platform(read)))
            return
        yield from self._unfolded(read, around)

    def _unfolded(self, read: FileMessage, around: bytes) -> Iterator[FileMessage]:
        """The posts of a page or an export, or a plain post."""
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
        return self._maker.message(diagnose(value, error), b"", number, value)

    def _plain(self, read: FileMessage) -> FileMessage:
        """A plain post without an id gets one made of its text."""
        if isinstance(read.reading, Rejected) and read.reading.reason is Reason.NO_ID:
            whole = OBJECT.decode(read.raw)
            if recognise_form(read.raw) == "plain" and bytes(whole.get("text", ABSENT)).startswith(
                b'"'
            ):
                text = decode(whole["text"], type=str)
                whole["id"] = Raw(msgspec.json.encode(text_id(text)))
                value = msgspec.json.encode(whole)
                read = self._maker.post(value, read.offset + 1, read.raw)
        if self._only == "twarc" and _platform(read) == "plain":
            read = self._maker.post(wrap_tweet(read.raw), read.offset + 1, read.raw)
        return self._allowed(read, PLATFORMS.get(_platform(read)))

    def _allowed(self, read: FileMessage, kind: str | None) -> FileMessage:
        """The message, or a bad row if it is of another platform than --format."""
        if self._only in (None, kind) or isinstance(read.reading, Rejected):
            return read
        if isinstance(read.reading, PassedOver) and kind is None:
            return read  # nobody can tell whose it is
        message = f"value: is no post of --format {self._only}"
        return self._maker.bad(read.offset + 1, read.raw, message)

    def _by_columns(self, value: bytes, number: int) -> FileMessage:
        if (bad := refusal(value, self._maker.limits)) is not None:
            return self._maker.message(bad, b"", number, value)
        try:
            row = ANYTHING.decode(value)
            picked = PostColumns.from_header(list(row), self._options)
            if not isinstance(row[picked.text], str | None):
                raise FormatError(f"{picked.text}: is no text; name another with --text-column")
            post = picked.post(row, self._maker.oddities)
        except FormatError as error:
            return self._maker.bad(number, value, f"value: {error}", Reason.NO_TEXT)
        except FAULTS as error:
            return self._maker.message(diagnose(value, error), b"", number, value)
        return self._maker.post(post, number, value)


def _platform(message: FileMessage) -> str:
    return message.reading.platform if isinstance(message.reading, Post) else ""


def _parts(value: bytes, around: bytes) -> tuple[str | None, Unfolded | None]:
    """The platform of an object and its posts; None and None if unknown."""
    keys = KEYS.decode(value)
    if bytes(keys.data).startswith(b"["):
        return _of_page(value, keys.data)
    if bytes(keys.data).startswith(b"{") and bytes(keys.kind) in KINDS:
        return "reddit", map(submission_or_comment, things_of(value))
    if keys.reddit():
        return "reddit", iter([submission_or_comment(value)])
    if keys.uri and keys.record:
        return "bluesky", iter([event_of(value)])
    if bytes(keys.posts).startswith(b"["):
        return "bluesky", map(event_of, map(bytes, LIST.decode(keys.posts)))
    if bytes(keys.statuses).startswith(b"["):
        return None, map(bytes, LIST.decode(keys.statuses))
    return _of_export(value, keys, around)


def _of_page(value: bytes, data: Raw) -> tuple[str | None, Unfolded]:
    """`data` holds tweets, or posts of an archive of Reddit."""
    first = next(iter(LIST.decode(data)), None)
    if first is not None and KEYS.decode(first).reddit():
        return "reddit", map(submission_or_comment, map(bytes, LIST.decode(data)))
    return "twarc", tweets_of(value)


def _of_export(value: bytes, keys: ObjectKeys, around: bytes) -> tuple[str | None, Unfolded | None]:
    if keys.telegram():
        return "telegram", iter([message_of(value, around)])
    if keys.type and keys.object:
        return "mastodon", iter([status_of(value)])
    if b'"result_count"' in bytes(keys.meta) and not keys.data:
        return "twarc", iter(())  # a page without tweets
    return None, None
