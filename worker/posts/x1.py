"""Posts of X's API v1.1, as in its former streams and most collections."""

import msgspec

from worker.posts.checks import Draft, make_post
from worker.posts.outcome import Reading
from worker.posts.x import Id, post_url


class OldUser(msgspec.Struct):
    screen_name: str | None = None


class Extended(msgspec.Struct):
    """The whole of a tweet whose `text` is shortened."""

    full_text: str | None = None


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


DECODER = msgspec.json.Decoder(OldTweet)


def read(value: bytes) -> Reading:
    """A retweet has the text of its original."""
    tweet = DECODER.decode(value)
    id = tweet.id_str or tweet.id
    author = tweet.user.screen_name if tweet.user is not None else None
    original = full_text(tweet.retweeted_status) if tweet.retweeted_status is not None else None
    text = original if original is not None else full_text(tweet)
    return make_post("x", Draft(id, text, author, tweet.created_at, tweet.lang, post_url(id)))


def full_text(tweet: OldTweet) -> str | None:
    long_text = tweet.extended_tweet.full_text if tweet.extended_tweet is not None else None
    return next((t for t in (long_text, tweet.full_text, tweet.text) if t is not None), None)
