"""Feeds whose articles become seeds: previewed, followed and stopped."""

import time
from collections.abc import Set
from dataclasses import replace
from operator import attrgetter
from typing import Any

from encoder.errors import NewsiftError
from newsift.collect.feeds import FeedState, FollowedArticle, link_identity
from newsift.desk import feeds
from newsift.desk.api import Action, EmptyRequest, get_endpoint, post_endpoint
from newsift.desk.feeds import FeedSubscription
from newsift.desk.session import Desk
from newsift.desk.threads import lock_or_busy
from newsift.operations.feeds import Follower
from newsift.operations.messages import capture, notify
from newsift.web.polite import PoliteWeb
from worker.errors import RunError
from worker.posts.times import rfc3339

PREVIEW_ARTICLES = 3
MAX_ARTICLES = 50
MAX_PAUSE_S = 15.0


class FeedAction(Action, frozen=True, kw_only=True):
    feed: str
    event: str = ""
    keep: str = "14d"

    def subscription(self) -> FeedSubscription:
        return FeedSubscription(self.feed.strip(), self.event.strip() or None, self.keep, self.by)


class StopAction(Action, frozen=True, kw_only=True):
    feed: str


@get_endpoint("/api/feeds", EmptyRequest)
def feed_list(desk: Desk, _request: EmptyRequest) -> list[dict[str, Any]]:
    return desk.feeds.rows()


@post_endpoint("/api/feeds/preview", FeedAction, "feeds.preview")
def preview(desk: Desk, request: FeedAction) -> dict[str, Any]:
    """Publishes nothing."""
    subscription = request.subscription()
    options = replace(subscription.options(), most=PREVIEW_ARTICLES, dry=True)
    web = PoliteWeb(feeds.PUBLIC_LIMITS, sleep=_sleep_or_refuse)
    state = FeedState(subscription.feed, subscription.feed)
    follower = Follower(
        web, state, options, desk.config, store=lambda: None, show=_ignore, show_refusal=_ignore
    )
    busy = lock_or_busy(desk.feeds.previewing, "another feed is being read")
    with busy, capture() as messages:
        follower.fetch_feed()
        try:
            follower.read_due_articles()
        except NewsiftError as error:
            notify(str(error))
    articles = sorted(state.articles.values(), key=attrgetter("published_at"), reverse=True)
    return {
        "total": len(articles),
        "articles": [_row(article, follower.index.links) for article in articles[:MAX_ARTICLES]],
        "messages": messages,
    }


def _ignore(_line: str) -> None:
    """The rows show seeds and refusals."""


def _row(article: FollowedArticle, seed_links: Set[str]) -> dict[str, Any]:
    state = "later"
    if article.refusal is not None:
        state = "refused"
    elif article.seed is not None:
        state = "seed"
    elif article.left or link_identity(article.link) in seed_links:
        state = "exists"
    return {
        "title": article.title,
        "link": article.link,
        "published": rfc3339(article.published_at),
        "state": state,
        "why": article.refusal or "",
    }


def _sleep_or_refuse(seconds: float) -> None:
    if seconds > MAX_PAUSE_S:
        raise RunError(f"the site asks for a pause of {seconds:,.0f} s, too long for a preview")
    time.sleep(seconds)


@post_endpoint("/api/feeds/follow", FeedAction, "feeds.follow")
def follow(desk: Desk, request: FeedAction) -> None:
    """While the desk is open, and again at its next start."""
    desk.feeds.follow(request.subscription())


@post_endpoint("/api/feeds/stop", StopAction, "feeds.stop")
def stop(desk: Desk, request: StopAction) -> None:
    """The seeds of the feed stay."""
    desk.feeds.end(request.feed)
