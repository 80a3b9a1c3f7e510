"""Posts of X's API v2: a tweet alone, or as `data` beside what it `includes`."""

from typing import Annotated

import msgspec

from worker.posts.attachments import (
    NO_ATTACHMENTS,
    Attachments,
    Preview,
    decode_or_none,
    make_attachments,
    text_of,
)
from worker.posts.checks import Draft, make_post
from worker.posts.outcome import NO_POST, Reading

# A number of more than 64 bits is refused before it is compared or printed, which takes the square
# of its digits.
Id = str | Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class User(msgspec.Struct):
    """A user of the includes, or the author of a flattened tweet."""

    id: Id | None = None
    username: str | None = None


class Note(msgspec.Struct):
    """The full text of a long tweet."""

    text: str | None = None
    entities: msgspec.Raw = msgspec.Raw()


class Address(msgspec.Struct):
    """A link in a text, with what X found behind it; of a picture it has a media key."""

    expanded_url: msgspec.Raw = msgspec.Raw()
    unwound_url: msgspec.Raw = msgspec.Raw()
    media_key: msgspec.Raw = msgspec.Raw()
    title: msgspec.Raw = msgspec.Raw()
    description: msgspec.Raw = msgspec.Raw()

    @property
    def target(self) -> msgspec.Raw:
        return self.unwound_url if text_of(self.unwound_url) else self.expanded_url


class Entities(msgspec.Struct):
    urls: list[Address] | None = None


class Medium(msgspec.Struct):
    """A picture or a film."""

    media_key: msgspec.Raw = msgspec.Raw()
    alt_text: msgspec.Raw = msgspec.Raw()


class Pictures(msgspec.Struct):
    """The keys of a tweet's pictures; a flattened tweet has the pictures themselves."""

    media_keys: list[msgspec.Raw] | None = None
    media: list[Medium] | None = None


class Tweet(msgspec.Struct):
    """A tweet, or a reference to one of the includes."""

    id: Id | None = None
    text: str | None = None
    note_tweet: Note | None = None
    type: str | None = None
    author_id: Id | None = None
    author: User | str | None = None
    created_at: str | None = None
    lang: str | None = None
    referenced_tweets: "list[Tweet] | None" = None
    entities: msgspec.Raw = msgspec.Raw()
    attachments: msgspec.Raw = msgspec.Raw()


class Includes(msgspec.Struct):
    """The users and tweets to which a response's tweet refers."""

    users: list[User] | None = None
    tweets: list[Tweet] | None = None
    media: msgspec.Raw = msgspec.Raw()


class ComplianceEvent(msgspec.Struct):
    """What happened to a post, or to all posts of a user."""

    event_at: str
    tweet: Tweet | None = None


class ComplianceMessage(msgspec.Struct):
    """A message of X's compliance streams: events by their kinds, such as `delete`."""

    data: dict[str, ComplianceEvent]


class Envelope(Tweet):
    """A tweet, or an object around one."""

    data: Tweet | None = None
    includes: Includes | None = None
    errors: msgspec.Raw = msgspec.Raw()


ENTITIES = msgspec.json.Decoder(Entities)
PICTURES = msgspec.json.Decoder(Pictures)
MEDIA = msgspec.json.Decoder(list[Medium])
DECODER = msgspec.json.Decoder(Envelope)
COMPLIANCE_MESSAGE = msgspec.json.Decoder(ComplianceMessage)


def read(value: bytes) -> Reading:
    message = DECODER.decode(value)
    if message.data is None and message.errors and message.id is None:
        return NO_POST
    tweet: Tweet = message.data if message.data is not None else message
    if message.data is not None and tweet.id is None and _is_compliance_message(value):
        return NO_POST
    includes = message.includes or Includes()
    author = author_name(tweet, includes.users or [])
    original = shown_tweet(tweet, includes.tweets or [])
    url = post_url(tweet.id)
    draft = Draft(tweet.id, full_text(original), author, tweet.created_at, tweet.lang, url)
    return make_post("x", draft, read_attachments(original, includes.media))


def media_keys(tweet: Tweet) -> list[str]:
    """The keys of its pictures and films among what a response includes."""
    own = decode_or_none(tweet.attachments, PICTURES) or Pictures()
    return [key for key in map(text_of, own.media_keys or ()) if key is not None]


def _is_compliance_message(value: bytes) -> bool:
    try:
        return bool(COMPLIANCE_MESSAGE.decode(value).data)
    except msgspec.ValidationError:
        return False


def author_name(tweet: Tweet, users: list[User]) -> str | None:
    """The author's name, or else the id."""
    if isinstance(tweet.author, str):
        return tweet.author
    if tweet.author is not None and tweet.author.username:
        return tweet.author.username
    if tweet.author_id is None:
        return None
    author = str(tweet.author_id)
    names = (user.username for user in users if str(user.id) == author)
    return next((name for name in names if name), author)


def shown_tweet(tweet: Tweet, others: list[Tweet]) -> Tweet:
    """The post itself; of a retweet the original, if its text is included."""
    originals = [r for r in tweet.referenced_tweets or [] if r.type == "retweeted"]
    if not originals:
        return tweet
    by_id = {str(other.id): other for other in reversed(others) if full_text(other) is not None}
    shown = (by_id.get(str(reference.id), reference) for reference in originals)
    return next((other for other in shown if full_text(other) is not None), tweet)


def read_attachments(tweet: Tweet, media: msgspec.Raw) -> Attachments:
    """The card is that of the first link about which X tells something."""
    note = tweet.note_tweet.entities if tweet.note_tweet is not None else msgspec.Raw()
    if not (tweet.entities or note or tweet.attachments):
        return NO_ATTACHMENTS
    parts = [decode_or_none(raw, ENTITIES) for raw in (tweet.entities, note)]
    addresses = [
        address for part in parts if part is not None
        for address in part.urls or () if text_of(address.media_key) is None
    ]  # fmt: skip
    own = decode_or_none(tweet.attachments, PICTURES) or Pictures()
    included = decode_or_none(media, MEDIA) or [] if own.media_keys else []
    every = [*included, *(own.media or ())]
    pictures = {text_of(picture.media_key): picture for picture in every}
    keys = dict.fromkeys(media_keys(tweet))  # a key again would cost its picture again
    alt = (pictures[key].alt_text for key in keys if key in pictures)
    previews = (
        Preview(address.target, msgspec.Raw(), address.title, address.description)
        for address in addresses if text_of(address.title)
    )  # fmt: skip
    return make_attachments(alt, next(previews, None), (address.target for address in addresses))


def full_text(tweet: Tweet) -> str | None:
    long = tweet.note_tweet.text if tweet.note_tweet is not None else None
    return long if long is not None else tweet.text


def post_url(id: Id | None) -> str | None:
    name = str(id)
    return f"https://x.com/i/status/{name}" if name.isascii() and name.isdigit() else None
