"""Posts of X's API v1.1, as in its former streams and most collections."""

import msgspec

from worker.posts.attachments import Attachments, decode_or_none, make_attachments
from worker.posts.checks import Draft, make_post
from worker.posts.outcome import Reading
from worker.posts.x import ENTITIES, Entities, Id, post_url


class OldUser(msgspec.Struct):
    screen_name: str | None = None


class Extended(msgspec.Struct):
    """The whole of a tweet whose `text` is shortened."""

    full_text: str | None = None
    entities: msgspec.Raw = msgspec.Raw()
    extended_entities: msgspec.Raw = msgspec.Raw()


class OldMedium(msgspec.Struct):
    ext_alt_text: msgspec.Raw = msgspec.Raw()


class Pictures(msgspec.Struct):
    media: list[OldMedium] | None = None


class OldTweet(msgspec.Struct):
    """A tweet, or the original inside a retweet."""

    id: Id | None = None
    id_str: str | None = None
    text: str | None = None
    full_text: str | None = None
    extended_tweet: Extended | None = None
    user: OldUser | None = None
    created_at: str | None = None
    lang: str | None = None
    retweeted_status: "OldTweet | None" = None
    entities: msgspec.Raw = msgspec.Raw()
    extended_entities: msgspec.Raw = msgspec.Raw()


PICTURES = msgspec.json.Decoder(Pictures)
DECODER = msgspec.json.Decoder(OldTweet)


def read(value: bytes) -> Reading:
    """A retweet has the text of its original."""
    tweet = DECODER.decode(value)
    id = tweet.id_str or tweet.id
    author = tweet.user.screen_name if tweet.user is not None else None
    original = tweet.retweeted_status
    shown = tweet if original is None or full_text(original) is None else original
    draft = Draft(id, full_text(shown), author, tweet.created_at, tweet.lang, post_url(id))
    return make_post("x", draft, read_attachments(shown))


def read_attachments(tweet: OldTweet) -> Attachments:
    """Those of the whole tweet, where its `text` is shortened."""
    whole = tweet.extended_tweet or tweet
    entities = decode_or_none(whole.entities, ENTITIES) or Entities()
    pictures = decode_or_none(whole.extended_entities, PICTURES) or Pictures()
    alt = (picture.ext_alt_text for picture in pictures.media or ())
    return make_attachments(alt, links=(address.expanded_url for address in entities.urls or ()))


def full_text(tweet: OldTweet) -> str | None:
    long_text = tweet.extended_tweet.full_text if tweet.extended_tweet is not None else None
    return next((t for t in (long_text, tweet.full_text, tweet.text) if t is not None), None)
