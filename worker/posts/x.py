"""Posts of X's API v2: a tweet alone, or as `data` beside what it `includes`."""

from typing import Annotated

import msgspec

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


class Includes(msgspec.Struct):
    """The users and tweets to which a response's tweet refers."""

    users: list[User] | None = None
    tweets: list[Tweet] | None = None


class Envelope(Tweet):
    """A tweet, or an object around one."""

    data: Tweet | None = None
    includes: Includes | None = None
    errors: msgspec.Raw = msgspec.Raw()


DECODER = msgspec.json.Decoder(Envelope)


def read(value: bytes) -> Reading:
    message = DECODER.decode(value)
    if message.data is None and message.errors and message.id is None:
        return NO_POST
    tweet: Tweet = message.data if message.data is not None else message
    includes = message.includes or Includes()
    author = author_name(tweet, includes.users or [])
    text = tweet_text(tweet, includes.tweets or [])
    url = post_url(tweet.id)
    return make_post("x", Draft(tweet.id, text, author, tweet.created_at, tweet.lang, url))


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


def tweet_text(tweet: Tweet, others: list[Tweet]) -> str | None:
    """The text of a post; of a retweet the original's, if it is included."""
    originals = [r for r in tweet.referenced_tweets or [] if r.type == "retweeted"]
    if not originals:
        return full_text(tweet)
    other_texts = ((str(other.id), full_text(other)) for other in reversed(others))
    by_id = {id: text for id, text in other_texts if text is not None}
    texts = (by_id.get(str(reference.id), full_text(reference)) for reference in originals)
    return next((text for text in texts if text is not None), full_text(tweet))


def full_text(tweet: Tweet) -> str | None:
    long = tweet.note_tweet.text if tweet.note_tweet is not None else None
    return long if long is not None else tweet.text


def post_url(id: Id | None) -> str | None:
    name = str(id)
    return f"https://x.com/i/status/{name}" if name.isascii() and name.isdigit() else None
