"""Feeds whose articles become seeds: looked at first, followed, stopped."""

import time
from operator import attrgetter
from typing import Any

from encoder.errors import NewsiftError
from newsift.collect.feeds import Followed, FollowedArticle, link_identity
from newsift.desk import feeds
from newsift.desk.api import Act, Nothing, acts, reads
from newsift.desk.feeds import FeedSubscription
from newsift.desk.session import Desk
from newsift.desk.threads import lock_or_busy
from newsift.operations.feeds import Follower, FollowOptions
from newsift.operations.messages import capture, notify
from newsift.web.polite import PoliteWeb
from worker.errors import RunError
from worker.posts.times import rfc3339

SAMPLE = 3  # articles that are read before a feed is followed
MOST_ARTICLES = 50  # articles that it names
PATIENCE_S = 15.0  # that a site may want between two requests


class FeedRequest(Act, frozen=True, kw_only=True):
    """A feed, the event that its articles are about, and how long each is a seed."""

    feed: str
    event: str = ""
    keep: str = "14d"

    def subscription(self) -> FeedSubscription:
        """The same, as it is remembered."""
        return FeedSubscription(self.feed.strip(), self.event.strip() or None, self.keep, self.by)


class Stopped(Act, frozen=True, kw_only=True):
    """A feed to follow no more."""

    feed: str


@reads("/api/feeds", Nothing)
def listed(desk: Desk, _request: Nothing) -> list[dict[str, Any]]:
    """The feeds that this desk follows, and what came of each."""
    return desk.feeds.rows()


@acts("/api/feeds/look", FeedRequest, "feeds look")
def look(desk: Desk, request: FeedRequest) -> dict[str, Any]:
    """What a feed names now, and what its newest articles would be; nothing is published."""
    subscription = request.subscription()
    plan = FollowOptions(subscription.event, subscription.plan().keep, SAMPLE, dry=True)
    web = PoliteWeb(feeds.OPEN, sleep=_patiently)
    follower = Follower(
        web,
        Followed(subscription.feed, subscription.feed),
        plan,
        desk.config,
        lambda: None,
        lambda _line: None,
    )
    with (
        lock_or_busy(desk.feeds.looking, "another feed is being looked at"),
        capture() as messages,
    ):
        follower.look()
        try:
            follower.read()
        except NewsiftError as error:
            notify(str(error))
    articles = sorted(
        follower.followed.articles.values(), key=attrgetter("published"), reverse=True
    )
    there = follower.index.by_link
    return {
        "total": len(articles),
        "every": follower.followed.interval,
        "articles": [_row(each, there) for each in articles[:MOST_ARTICLES]],
        "told": [line for line in messages if not line.startswith("no seed: ")],
    }


def _row(followed: FollowedArticle, there: dict[str, str]) -> dict[str, Any]:
    """An article that a feed names, and what would come of it, as far as it was read."""
    state = "later"
    if followed.refusal is not None:
        state = "refused"
    elif followed.seed is not None:
        state = "seed"
    elif followed.left or link_identity(followed.link) in there:
        state = "there"
    return {
        "title": followed.title,
        "link": followed.link,
        "published": rfc3339(followed.published),
        "state": state,
        "why": followed.refusal or "",
    }


def _patiently(seconds: float) -> None:
    """Wait for a site's turn, but not for as long as somebody who looks would not."""
    if seconds > PATIENCE_S:
        raise RunError(
            f"the site wants {seconds:,.0f} s between two requests; followed, it gets them"
        )
    time.sleep(seconds)


@acts("/api/feeds/follow", FeedRequest, "seeds follow")
def follow(desk: Desk, request: FeedRequest) -> None:
    """Follow a feed from now on, for as long as the desk is open."""
    desk.feeds.follow(request.subscription())


@acts("/api/feeds/stop", Stopped, "seeds follow no more")
def stop(desk: Desk, request: Stopped) -> None:
    """Follow a feed no more; the seeds that came of it stay."""
    desk.feeds.end(request.feed)


ENDPOINTS = (listed, look, follow, stop)
