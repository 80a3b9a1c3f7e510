"""What is known of a feed's articles, and which of them are to be read now."""

from collections.abc import Iterable

import msgspec

from encoder.errors import InputError
from worker.sources.feed import Entry
from worker.sources.links import cleaned, link_identity

HOUR = 3_600_000  # milliseconds
RETRY = HOUR // 4
TRIES = 6  # of what fails for now: over some 16 hours
LOOK_AGAIN = 6 * HOUR
MOST_KNOWN = 10_000


class FollowedArticle(msgspec.Struct):
    """An article that a feed has named, and what came of it."""

    link: str
    title: str
    published: int  # milliseconds, as all times here
    mark: str  # the entry's, as it was when the article was read, or is to be
    seen: int  # when the feed was found to name it
    read: int | None = None
    news: bool = False  # the entry says something else since
    again: int = 0  # how often it was read after that
    failing: bool = False  # for now, as far as one can see
    refusal: str | None = None  # as it was told
    seed: str | None = None  # that was made of it
    version: str | None = None
    left: bool = False  # alone: its seed is somebody else's, or was removed or rewritten

    def due(self, now: int) -> bool:
        """Whether it is to be read; again ever more seldom, though it be another one each time."""
        if self.left:
            return False
        if self.read is None:
            return True
        if self.failing and self.again < TRIES:
            return now >= self.read + (RETRY << self.again)
        if self.news:
            return now >= self.read + HOUR * self.again
        return self.seed is not None and now >= self.read + LOOK_AGAIN * (self.again + 1)

    def tried(self, now: int, *, failing: bool = False) -> None:
        """It was read, or could not be for now."""
        self.again += self.read is not None
        self.read, self.news, self.failing = now, False, failing

    def leave(self) -> None:
        """Leave it alone from now on, and its seed, if there is one."""
        self.seed, self.left = None, True


class Followed(msgspec.Struct):
    """A feed that is followed: where it stands, how it was last, and the articles it has named."""

    feed: str  # the address that was given
    address: str  # where it stands
    etag: str | None = None
    modified: str | None = None
    interval: float = 0.0  # seconds that the feed asks for between two looks
    failures: int = 0  # in a row
    wait_until: int = 0
    seen: int = 0  # when its entries were last read
    articles: dict[str, FollowedArticle] = msgspec.field(default_factory=dict)

    def note(self, entries: Iterable[Entry], now: int, keep: int) -> int:
        """Take over what the feed names now; how many articles of it are new and young enough."""
        self.seen, fresh = now, 0
        named = set[str]()
        for entry in entries:
            name = link_identity(entry.link)
            if name in named:
                continue
            named.add(name)
            if (known := self.articles.get(name)) is not None:
                known.seen = now
                if known.mark != entry.mark:
                    known.mark, known.news = entry.mark, True
            elif (published := min(entry.published or now, now)) + keep > now:
                fresh += 1
                link = cleaned(entry.link)
                self.articles[name] = FollowedArticle(link, entry.title, published, entry.mark, now)
        self._forget(now - keep)
        return fresh

    def due(self, now: int, keep: int, most: int) -> list[FollowedArticle]:
        """What is to be read now of the articles that the feed names: new ones first."""
        found = [
            known for known in self.articles.values()
            if known.seen == self.seen and known.published + keep > now and known.due(now)
        ]  # fmt: skip
        return sorted(found, key=lambda known: (known.read or 0, -known.published))[:most]

    def ended(self, before: int, keep: int) -> list[FollowedArticle]:
        """The articles whose seeds should have ended by then."""
        return [
            known for known in self.articles.values()
            if known.seed is not None and known.published + keep <= before
        ]  # fmt: skip

    def _forget(self, before: int) -> None:
        """Leave out what has no seed and was not named for long, and the oldest of far too many."""
        kept = [
            (name, known) for name, known in self.articles.items()
            if known.seen >= before or known.seed is not None
        ]  # fmt: skip
        if len(kept) > MOST_KNOWN:
            kept.sort(key=lambda item: (item[1].seed is None, -item[1].seen))
        self.articles = dict(kept[:MOST_KNOWN])


def read_followed(content: bytes, where: str) -> Followed:
    """What a state file holds."""
    try:
        return msgspec.json.decode(content, type=Followed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InputError(
            f"{where}: is no state of a feed; move it away, and the feed is read anew"
        ) from None
