"""JSON objects of files as messages: the posts of each platform in the format of its API."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from newsift.files.messages import (
    RAW_OBJECT,
    FileMessage,
    FormatError,
    MessageMaker,
    join_parts,
    plain_post,
)
from newsift.files.tables import FileOptions, PostColumns
from worker.posts.checks import diagnose, refusal
from worker.posts.outcome import NO_POST, PassedOver, Post, Reason, Rejected
from worker.posts.x import Tweet, media_keys

Raw = msgspec.Raw
decode = msgspec.json.decode
AT_SCHEME = "at://"


class ViewedAuthor(msgspec.Struct):
    did: str | None = None


class PostView(msgspec.Struct):
    """A post as the API shows it (app.bsky.feed.defs#postView)."""

    uri: str
    record: Raw
    author: ViewedAuthor | None = None


def jetstream_event(view: bytes) -> bytes:
    """A post of Bluesky's API as an event of a Jetstream; 4CAT writes its keys in snake case."""
    post_view = decode(view, type=PostView)
    record: Any = post_view.record
    if b'"created_at"' in bytes(record):
        fields = RAW_OBJECT.decode(record)
        record = {"createdAt" if key == "created_at" else key: fields[key] for key in fields}
    did, _, path = post_view.uri.removeprefix(AT_SCHEME).partition("/")
    collection, _, key = path.partition("/")
    if post_view.author is not None and post_view.author.did:
        did = post_view.author.did  # the address may have a handle instead
    commit = {
        "operation": "create",
        "collection": collection,
        "rkey": key,
        "record": record,
    }
    return msgspec.json.encode({"did": did, "kind": "commit", "commit": commit})


WRITING_ACTIVITIES = ("Create", "Update")


class MastodonNote(msgspec.Struct):
    id: str | None = None
    content: str | None = None
    summary: str | None = None
    published: str | None = None
    url: str | None = None
    attributedTo: str | None = None
    contentMap: dict[str, str] | None = None
    attachment: Any = None  # pictures; `name` says what one shows


class Activity(msgspec.Struct):
    type: str
    object: msgspec.Raw


def mastodon_status(activity: bytes) -> bytes | PassedOver:
    """An ActivityPub activity as a status of Mastodon's API; a shared post has no text."""
    action = decode(activity, type=Activity)
    if action.type not in WRITING_ACTIVITIES or not bytes(action.object).startswith(b"{"):
        return NO_POST
    note = decode(action.object, type=MastodonNote)
    pictures = note.attachment if isinstance(note.attachment, list) else []
    language = next(iter(note.contentMap), None) if note.contentMap else None
    status = {
        "id": _last_part(note.id), "content": note.content, "spoiler_text": note.summary,
        "account": {"acct": _last_part(note.attributedTo)}, "created_at": note.published,
        "language": language, "uri": note.id, "url": note.url,
        "media_attachments": [
            {"description": picture.get("name")} for picture in pictures
            if isinstance(picture, dict)
        ],
    }  # fmt: skip
    return msgspec.json.encode(status)


def _last_part(address: str | None) -> str | None:
    """The last part of an address is the id in the API of its server."""
    return None if address is None else address.rstrip("/").rpartition("/")[2]


REDDIT_URL = "https://www.reddit.com"
SUBMISSION, COMMENT, LISTING = "t3", "t1", "Listing"


class RedditThing(msgspec.Struct):
    """A submission (`title`, `selftext`) or a comment (`body`)."""

    id: str | None = None
    name: str | None = None
    title: str | None = None
    selftext: str | None = None
    body: str | None = None
    author: str | None = None
    created_utc: int | float | str | None = None
    permalink: str | None = None
    is_self: Any = None  # whether it is a text, not a link
    url: Any = None
    replies: Raw = Raw()


class RedditObject(msgspec.Struct):
    """The envelope of any object of the API."""

    kind: str
    data: Raw


class Listing(msgspec.Struct):
    children: list[RedditObject]


THING = msgspec.json.Decoder(RedditThing)


def unfold_listing(listing: bytes) -> Iterator[bytes]:
    """The submissions and comments of a listing or thing, each before its replies."""
    waiting = [decode(listing, type=RedditObject)]
    while waiting:
        item = waiting.pop()
        if item.kind == LISTING:
            waiting.extend(reversed(decode(item.data, type=Listing).children))
        elif item.kind in (SUBMISSION, COMMENT):
            yield bytes(item.data)
            replies = bytes(THING.decode(item.data).replies)
            if replies.startswith(b"{"):
                waiting.append(decode(replies, type=RedditObject))


def reddit_post(thing: bytes) -> bytes:
    """A submission or comment as a plain post."""
    item = THING.decode(thing)
    kind = SUBMISSION if item.body is None else COMMENT
    parts = (item.body,) if kind == COMMENT else (item.title, item.selftext)
    text = join_parts(parts)
    name = item.name or (f"{kind}_{item.id}" if item.id else None)
    url = f"{REDDIT_URL}{item.permalink}" if item.permalink else None
    created_at = item.created_utc
    time = float(created_at) if isinstance(created_at, str) else created_at
    links = [item.url] if item.is_self is False and isinstance(item.url, str) else []
    return plain_post(text, name, author=item.author, created_at=time, url=url, links=links)


INVALID_ESCAPE = re.compile(rb"(\\\\)|\\x(?=[0-9A-F]{2})")  # Telegram writes \x0B


class TextPart(msgspec.Struct):
    text: str = ""
    type: Any = None
    href: Any = None  # of a text that is a link to another address

    @property
    def link(self) -> str | None:
        address = self.text if self.type == "link" else self.href
        return address if isinstance(address, str) else None


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


def telegram_post(message: bytes, prefix: bytes) -> bytes | PassedOver:
    """A message as a plain post, whose id has the chat's id, as each chat numbers its messages."""
    content = decode(message, type=ChatMessage)
    if content.type != "message":
        return NO_POST
    parts = [content.text] if isinstance(content.text, str) else content.text
    text = "".join(part if isinstance(part, str) else part.text for part in parts)
    chat = _chat_id(prefix)
    name = f"{content.id}" if chat is None else f"{chat}/{content.id}"
    author = content.sender or (None if content.from_id is None else str(content.from_id))
    time = content.date_unixtime  # older exports have the date alone, without an offset
    created_at = content.date if time is None else float(time)
    links = [part.link for part in parts if isinstance(part, TextPart) and part.link]
    return plain_post(text, name, author=author, created_at=created_at, links=links)


def mend_escapes(message: bytes) -> bytes:
    """Make the escapes of control characters valid JSON."""
    if rb"\x" not in message:
        return message
    return INVALID_ESCAPE.sub(lambda match: match[1] or rb"\u00", message)


@lru_cache(4)
def _chat_id(prefix: bytes) -> str | None:
    """The id of the chat; `prefix` is its JSON up to the list of messages."""
    try:
        chat = decode(prefix.rstrip() + b"null}", type=Chat)
    except msgspec.DecodeError:
        return None
    return None if chat.id is None else str(chat.id)


MAX_COPY_RATIO = 8  # copied to page bytes: each tweet gets copies of the objects it refers to


class ExportIncludes(msgspec.Struct):
    users: list[Raw] | None = None
    tweets: list[Raw] | None = None
    media: list[Raw] | None = None


class TweetPage(msgspec.Struct):
    data: list[Raw]
    includes: ExportIncludes | None = None


class IdObject(msgspec.Struct):
    id: str | int


class MediaObject(msgspec.Struct):
    media_key: str


class ShownMedia(msgspec.Struct):
    """The attachments of a tweet: 4CAT has pictures in the place of their keys."""

    media_keys: list[Raw] | None = None


TWEET = msgspec.json.Decoder(Tweet)


def unfold_page(page: bytes) -> Iterator[bytes]:
    """Each tweet of a page as a response with its own includes."""
    response = decode(page, type=TweetPage)
    includes = response.includes or ExportIncludes()
    users, tweets = _by_id(includes.users), _by_id(includes.tweets)
    media = {decode(item, type=MediaObject).media_key: item for item in includes.media or []}
    room = MAX_COPY_RATIO * len(page)
    for tweet in response.data:
        tweet_fields = TWEET.decode(tweet)
        author = users.get(str(tweet_fields.author_id))
        other_ids = [str(other.id) for other in tweet_fields.referenced_tweets or []]
        others = [tweets[id] for id in dict.fromkeys(other_ids) if id in tweets]
        keys = [key for shown in (tweet, *others) for key in media_keys(TWEET.decode(shown))]
        pictures = [media[key] for key in dict.fromkeys(keys) if key in media]
        room -= len(author or b"") + sum(map(len, others)) + sum(map(len, pictures))
        if room < 0:
            raise ValueError("the page refers to too much, again and again")
        own_includes = {"users": [author] if author else [], "tweets": others, "media": pictures}
        own_includes = {name: objects for name, objects in own_includes.items() if objects}
        if own_includes:
            yield msgspec.json.encode({"data": tweet, "includes": own_includes})
        else:
            yield wrap_tweet(bytes(tweet))


def flattened_tweet(tweet: bytes | Raw) -> dict[str, Any]:
    """A tweet as 4CAT keeps it, as twarc flattens it.

    4CAT puts the author under `author_user`, and pictures in the place of their keys.
    """
    fields: dict[str, Any] = RAW_OBJECT.decode(tweet)
    if author := fields.pop("author_user", None):
        fields["author"] = author
    attachments = decode(fields.get("attachments", b"null"), type=ShownMedia | None)
    shown = (attachments and attachments.media_keys) or []
    if pictures := [item for item in shown if bytes(item).startswith(b"{")]:
        keys = [decode(picture, type=MediaObject).media_key for picture in pictures]
        fields["attachments"] = {"media_keys": keys, "media": pictures}
    others = decode(fields.get("referenced_tweets", b"null"), type=list[Raw] | None)
    return fields | {"referenced_tweets": [flattened_tweet(other) for other in others or []]}


def wrap_tweet(tweet: bytes) -> bytes:
    """A tweet alone, in an envelope that no other platform has."""
    return b'{"data":' + tweet + b"}"


def _by_id(objects: list[Raw] | None) -> dict[str, Raw]:
    return {str(decode(item, type=IdObject).id): item for item in objects or []}


ABSENT = Raw()
PLATFORMS = {"x": "twarc", "bluesky": "bluesky", "mastodon": "mastodon"}
FORMATS = ("twarc", "bluesky", "mastodon", "reddit", "telegram")
Posts = Iterator[bytes | PassedOver]
REDDIT_KINDS = [msgspec.json.encode(kind) for kind in (LISTING, SUBMISSION, COMMENT)]
TELEGRAM_TYPES = (b'"message"', b'"service"')
TELEGRAM_UNSUPPORTED = b'"unsupported"'  # it has an id and a type alone
AUTHOR_OF_FOURCAT = b'"author_user"'
DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)


class ObjectKeys(msgspec.Struct, gc=False):
    """The keys that show of which platform an object is."""

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
    from_id: Raw = ABSENT

    def is_reddit(self) -> bool:
        return bool(self.subreddit and (self.body or self.selftext))

    def is_telegram(self, prefix: bytes) -> bool:
        """Older exports have neither `date_unixtime` nor `text_entities`."""
        if prefix and bytes(self.type) == TELEGRAM_UNSUPPORTED:
            return True
        is_new = self.type and (self.text_entities or self.date_unixtime)
        is_old = bytes(self.type) in TELEGRAM_TYPES and (prefix or self.from_id)
        return bool(self.date and (is_new or is_old))


KEYS = msgspec.json.Decoder(ObjectKeys)
LIST = msgspec.json.Decoder(list[Raw])
ANYTHING = msgspec.json.Decoder(dict[str, Any])


class ObjectReader:
    def __init__(self, maker: MessageMaker, options: FileOptions) -> None:
        self._maker, self._options = maker, options
        self._platform = options.format if options.format in FORMATS else None

    def messages(self, value: bytes, number: int, prefix: bytes = b"") -> Iterator[FileMessage]:
        """An object without a post becomes a message with the reason."""
        value = mend_escapes(value) if prefix else value
        if self._options.names_columns:
            yield self._by_columns(value, number)
            return
        message = self._maker.post(value, number, value)
        if _platform(message) == "x" and AUTHOR_OF_FOURCAT in value:
            message = self._of_fourcat(message)
        if message.reading == NO_POST or _platform(message) in PLATFORMS:
            yield self._check_platform(message)
            return
        yield from self._unfold(message, prefix)

    def _unfold(self, message: FileMessage, prefix: bytes) -> Iterator[FileMessage]:
        """The posts of a page or an export, or a plain post."""
        value, number = message.raw, message.offset + 1
        try:
            is_refused = refusal(value, self._maker.limits) is not None
            kind, parts = (None, None) if is_refused else _posts_of(value, prefix)
        except DECODE_ERRORS:
            kind, parts = None, None
        if parts is None:
            yield self._plain(message)
            return
        try:
            for part in parts:
                if isinstance(part, PassedOver):
                    message = self._maker.message(part, b"", number, value)
                    yield self._check_platform(message, kind)
                else:
                    post = self._maker.post(part, number, part)
                    yield self._check_platform(post, kind)
        except (msgspec.MsgspecError, RecursionError) as error:
            yield self._maker.message(diagnose(value, error), b"", number, value)
        except ValueError as error:
            yield self._maker.rejected(number, value, str(error))

    def _of_fourcat(self, message: FileMessage) -> FileMessage:
        """The tweet with its author's name and what its pictures show, if it has 4CAT's form."""
        try:
            post = msgspec.json.encode(flattened_tweet(message.raw))
        except DECODE_ERRORS:
            return message
        return self._maker.post(post, message.offset + 1, message.raw)

    def _plain(self, message: FileMessage) -> FileMessage:
        if self._platform == "twarc" and _platform(message) == "plain":
            message = self._maker.post(wrap_tweet(message.raw), message.offset + 1, message.raw)
        return self._check_platform(message)

    def _check_platform(self, message: FileMessage, kind: str | None = None) -> FileMessage:
        """The message, or a bad row if it is of another platform than --format."""
        kind = kind or PLATFORMS.get(_platform(message))
        if self._platform in (None, kind) or isinstance(message.reading, Rejected):
            return message
        if isinstance(message.reading, PassedOver) and kind is None:
            return message  # its platform is unknown
        detail = f"value: is not a post of --format {self._platform}"
        return self._maker.rejected(message.offset + 1, message.raw, detail)

    def _by_columns(self, value: bytes, number: int) -> FileMessage:
        if (bad := refusal(value, self._maker.limits)) is not None:
            return self._maker.message(bad, b"", number, value)
        try:
            row = ANYTHING.decode(value)
            columns = PostColumns.from_header(list(row), self._options)
            if not isinstance(row[columns.text], str | None):
                raise FormatError(f"{columns.text}: is not text; name another with --text-column")
            post = columns.post(row, self._maker.corrector)
        except FormatError as error:
            return self._maker.rejected(number, value, f"value: {error}", Reason.NO_TEXT)
        except DECODE_ERRORS as error:
            return self._maker.message(diagnose(value, error), b"", number, value)
        return self._maker.post(post, number, value)


def _platform(message: FileMessage) -> str:
    return message.reading.platform if isinstance(message.reading, Post) else ""


def _posts_of(value: bytes, prefix: bytes) -> tuple[str | None, Posts | None]:
    """The platform of an object and its posts; None and None if unknown."""
    keys = KEYS.decode(value)
    if bytes(keys.data).startswith(b"["):
        return _of_page(value, keys.data)
    if bytes(keys.data).startswith(b"{") and bytes(keys.kind) in REDDIT_KINDS:
        return "reddit", map(reddit_post, unfold_listing(value))
    if keys.is_reddit():
        return "reddit", iter([reddit_post(value)])
    if keys.uri and keys.record:
        return "bluesky", iter([jetstream_event(value)])
    if bytes(keys.posts).startswith(b"["):
        return "bluesky", map(jetstream_event, map(bytes, LIST.decode(keys.posts)))
    if bytes(keys.statuses).startswith(b"["):
        return None, map(bytes, LIST.decode(keys.statuses))
    return _of_export(value, keys, prefix)


def _of_page(value: bytes, data: Raw) -> tuple[str | None, Posts]:
    """`data` is a list of tweets, or of posts from an archive of Reddit."""
    first = next(iter(LIST.decode(data)), None)
    if first is not None and KEYS.decode(first).is_reddit():
        return "reddit", map(reddit_post, map(bytes, LIST.decode(data)))
    return "twarc", unfold_page(value)


def _of_export(value: bytes, keys: ObjectKeys, prefix: bytes) -> tuple[str | None, Posts | None]:
    if keys.is_telegram(prefix):
        return "telegram", iter([telegram_post(value, prefix)])
    if keys.type and keys.object:
        return "mastodon", iter([mastodon_status(value)])
    if b'"result_count"' in bytes(keys.meta) and not keys.data:
        return "twarc", iter(())  # a page without tweets
    return None, None
