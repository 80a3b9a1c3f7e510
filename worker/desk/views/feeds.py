"""Feeds whose articles become seeds: looked at first, followed, stopped."""

import time
from operator import attrgetter
from typing import Any

from encoder.errors import NewsiftError
from worker.actions.seeds.polite import PoliteWeb
from worker.actions.seeds.round import Follower, Plan
from worker.actions.told import listening, say
from worker.desk.desk import Desk
from worker.desk.keeping import feed
from worker.desk.keeping.feed import Wish
from worker.desk.server.api import Act, Nothing, acts, reads
from worker.desk.turn import one_at_a_time
from worker.errors import RunError
from worker.posts.times import rfc3339
from worker.sources.followed import Followed, FollowedArticle
from worker.sources.links import link_identity

SAMPLE = 3  # articles that are read before a feed is followed
SHOWN = 50  # articles that it names
PATIENCE_S = 15.0  # that a site may want between two requests


class Wanted(Act, frozen=True, kw_only=True):
    """A feed, the event that its articles are about, and how long each is a seed."""

    feed: str
    event: str = ""
    keep: str = "14d"

    def wish(self) -> Wish:
        """The same, as it is remembered."""
        return Wish(self.feed.strip(), self.event.strip() or None, self.keep, self.by)


class Stopped(Act, frozen=True, kw_only=True):
    """A feed to follow no more."""

    feed: str


@reads("/api/feeds", Nothing)
def listed(desk: Desk, _asked: Nothing) -> list[dict[str, Any]]:
    """The feeds that this desk follows, and what came of each."""
    return desk.feeds.rows()


@acts("/api/feeds/look", Wanted, "feeds look")
def look(desk: Desk, asked: Wanted) -> dict[str, Any]:
    """What a feed names now, and what its newest articles would be; nothing is published."""
    wish = asked.wish()
    plan = Plan(wish.event, wish.plan().keep, SAMPLE, dry=True)
    web = PoliteWeb(feed.OPEN, sleep=_patiently)
    follower = Follower(
        web, Followed(wish.feed, wish.feed), plan, desk.config, lambda: None, lambda _line: None
    )
    with one_at_a_time(desk.feeds.looking, "another feed is being looked at"), listening() as told:
        follower.look()
        try:
            follower.read()
        except NewsiftError as error:
            say(str(error))
    articles = sorted(
        follower.followed.articles.values(), key=attrgetter("published"), reverse=True
    )
    there = follower.book.by_link
    return {
        "total": len(articles),
        "every": follower.followed.interval,
        "articles": [_row(each, there) for each in articles[:SHOWN]],
        "told": [line for line in told if not line.startswith("no seed: ")],
    }


def _row(known: FollowedArticle, there: dict[str, str]) -> dict[str, Any]:
    """An article that a feed names, and what would come of it, as far as it was read."""
    state = "later"
    if known.refusal is not None:
        state = "refused"
    elif known.seed is not None:
        state = "seed"
    elif known.left or link_identity(known.link) in there:
        state = "there"
    return {
        "title": known.title,
        "link": known.link,
        "published": rfc3339(known.published),
        "state": state,
        "why": known.refusal or "",
    }


def _patiently(seconds: float) -> None:
    """Wait for a site's turn, but not for as long as somebody who looks would not."""
    if seconds > PATIENCE_S:
        raise RunError(
            f"the site wants {seconds:,.0f} s between two requests; followed, it gets them"
        )
    time.sleep(seconds)


@acts("/api/feeds/follow", Wanted, "seeds follow")
def follow(desk: Desk, asked: Wanted) -> None:
    """Follow a feed from now on, for as long as the desk is open."""
    desk.feeds.follow(asked.wish())


@acts("/api/feeds/stop", Stopped, "seeds follow no more")
def stop(desk: Desk, asked: Stopped) -> None:
    """Follow a feed no more; the seeds that came of it stay."""
    desk.feeds.end(asked.feed)


ENDPOINTS = (listed, look, follow, stop)
