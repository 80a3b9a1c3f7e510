"""What somebody wants to see of an event's matches, and what is found of it."""

from collections.abc import Iterable
from dataclasses import dataclass

from worker.desk.stories import Row, Story

ALL = 2**53 - 1  # which every reader of JSON can hold
ANY = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which stories, and how many: what is not said is any."""

    since: int = 0  # milliseconds
    lang: str = ANY
    platform: str = ANY
    least: float = -2.0  # score
    most: float = 2.0
    new: bool = False  # only those of which the first post came here
    text: str = ""
    seen: int = ALL  # the number of the last match that the page has shown; later ones are counted
    skip: int = 0
    count: int = 50

    def takes(self, row: Row) -> bool:
        """Whether a post is wanted."""
        return (
            self.since <= row.at
            and self.least <= row.score <= self.most
            and self.lang in (ANY, row.lang)
            and self.platform in (ANY, row.post_id[0])
            and (row.new or not self.new)
            and (not self.text or self._says(row))
        )

    def _says(self, row: Row) -> bool:
        post = row.record.post
        sought = self.text.casefold()
        return sought in post.text.casefold() or sought in (post.author or "").casefold()


@dataclass(frozen=True, slots=True)
class Finding:
    """Some stories, newest first, each by the first of its posts that is wanted."""

    stories: list[tuple[Row, Story]]
    total: int  # of them, beyond those given too
    newer: int  # that came since what the page has shown
    last: int  # the number of the newest, to be given as `seen`


def found_in(stories: Iterable[Story], wanted: Wanted) -> Finding:
    """The stories with a post that is wanted."""
    found = []
    for story in stories:
        row = next((row for row in list(story.rows.values()) if wanted.takes(row)), None)
        if row is not None:
            found.append((row, story))
    known = [each for each in found if each[0].number <= wanted.seen]
    known.sort(key=lambda each: (each[0].at, each[0].number), reverse=True)
    shown = known[wanted.skip : wanted.skip + wanted.count]
    last = max((row.number for row, _ in known), default=0)
    return Finding(shown, len(known), len(found) - len(known), last)
