"""Pages of the X API v2 as twarc2 keeps them: each tweet with its author and what it refers to."""

from collections.abc import Iterator

import msgspec

from worker.posts.x import Tweet

Raw = msgspec.Raw
MOST_COPIED = 8  # times the bytes of a page: what tweets refer to is copied to each


class Mentioned(msgspec.Struct):
    """What a page brings along."""

    users: list[Raw] | None = None
    tweets: list[Raw] | None = None


class TweetPage(msgspec.Struct):
    """A response: its tweets, and what they speak of."""

    data: list[Raw]
    includes: Mentioned | None = None


class Id(msgspec.Struct):
    """What is looked up by its id."""

    id: str | int


PAGE = msgspec.json.Decoder(TweetPage)
ID = msgspec.json.Decoder(Id)
TWEET = msgspec.json.Decoder(Tweet)


def tweets_of(page: bytes) -> Iterator[bytes]:
    """The tweets of a page, each a response of its own with what is read of the includes."""
    found = PAGE.decode(page)
    includes = found.includes or Mentioned()
    users, tweets = _by_id(includes.users), _by_id(includes.tweets)
    room = MOST_COPIED * len(page)
    for tweet in found.data:
        written = TWEET.decode(tweet)
        author = users.get(str(written.author_id))
        wanted = [str(other.id) for other in written.referenced_tweets or []]
        others = [tweets[id] for id in dict.fromkeys(wanted) if id in tweets]
        room -= len(author or b"") + sum(map(len, others))
        if room < 0:
            raise ValueError("the page refers to too much, again and again")
        yield _alone(tweet, author, others)


def enveloped(tweet: bytes) -> bytes:
    """A tweet by itself, in an envelope that nobody takes for another platform's."""
    return b'{"data":' + tweet + b"}"


def _alone(tweet: Raw, author: Raw | None, others: list[Raw]) -> bytes:
    brought: dict[str, list[Raw]] = {}
    if author is not None:
        brought["users"] = [author]
    if others:
        brought["tweets"] = others
    if not brought:
        return enveloped(bytes(tweet))
    return msgspec.json.encode({"data": tweet, "includes": brought})


def _by_id(objects: list[Raw] | None) -> dict[str, Raw]:
    return {str(ID.decode(each).id): each for each in objects or []}
