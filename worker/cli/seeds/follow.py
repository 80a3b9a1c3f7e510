"""`newsift seeds follow`: the articles of a feed as seeds, for as long as it goes on."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec

from encoder.errors import InputError
from encoder.support.files import read_regular, write_atomically
from worker.actions.seeds.fetch import Bounds, web_address
from worker.actions.seeds.polite import PoliteWeb, StatusError, for_now
from worker.actions.seeds.round import Follower, Plan
from worker.actions.told import tallied
from worker.cli.options import kafka_options
from worker.cli.signals import ended_by_sigterm
from worker.cli.terminal import say
from worker.cli.view.times import seconds
from worker.config import Config
from worker.errors import RunError
from worker.seeds.record import digest
from worker.seeds.values import event_in
from worker.sources.followed import Followed, read_followed
from worker.sources.state import locked, state_folder

LARGEST_STATE = 2**27
LONGEST_BACKOFF = 6 * 3600.0
MOST_FAILURES = 16  # that still lengthen the pause
GONE = 410
OPEN = Bounds(besides=", or give --intranet if FEED is in your own network")


@click.command()
@click.argument("feed", metavar="FEED")
@click.option("--event", help="The event that the articles are about; else each its own.")
@click.option("--keep", default="14d", metavar="SPAN", show_default=True,
              help="How long after its publication an article is a seed.")  # fmt: skip
@click.option("--every", default="15m", metavar="SPAN", show_default=True,
              help="How often to ask the feed, unless it wants to be asked less.")  # fmt: skip
@click.option("--most", default=20, type=click.IntRange(1), metavar="N", show_default=True,
              help="Articles read at a time; the others wait for the next.")  # fmt: skip
@click.option("--once", is_flag=True, help="Ask one time and stop: for cron.")
@click.option("--dry-run", "dry", is_flag=True, help="Ask one time, and publish and keep nothing.")
@click.option("--intranet", is_flag=True,
              help="Let FEED be a host of your own network; no other there is asked.")  # fmt: skip
@click.option("--state", metavar="FILE", type=click.Path(path_type=Path),
              help="What is known of the feed; else in the state folder.")  # fmt: skip
@kafka_options
def follow(
    feed: str, event: str | None, keep: str, every: str, most: int, once: bool, dry: bool,
    intranet: bool, state: Path | None, config: Config,
) -> None:  # fmt: skip
    """Publish the articles that FEED, RSS or Atom, names, and go on with those that come.

    Each is read as by `seeds add --url`. What a site asks of programs is kept to: robots.txt and
    its Crawl-delay, Retry-After, the feed's own interval. An article that is corrected replaces its
    seed's text.
    """
    event_in({"event": event})
    plan = Plan(event, round(seconds(keep, "--keep") * 1000), most, dry)
    pause = seconds(every, "--every")
    address = web_address(feed)
    web = PoliteWeb(OPEN, address if intranet else None)
    file = state or _default_state(feed, config)
    with ended_by_sigterm(), _stored(feed, file, dry) as (followed, store):
        say(f"following {feed}; what is known of it is in {file}")
        Tour(Follower(web, followed, plan, config, store, click.echo), pause, once or dry).go()


@dataclass(slots=True)
class Tour:
    """Round after round, or one; a feed or a broker that is away is told of and tried again."""

    follower: Follower
    every: float
    once: bool
    _begun: bool = False  # the feed has answered
    _told: set[str] = field(default_factory=set)  # what failed, for as long as it is the same

    def go(self) -> None:
        """Go on until somebody ends it."""
        self.round()
        while not self.once:
            time.sleep(self.every)
            self.round()

    def round(self) -> None:
        """Ask the feed if it is time, and read the articles that are due."""
        followed = self.follower.followed
        if (left := followed.wait_until / 1000 - time.time()) <= 0:
            self._look(followed)
        elif self.once:
            say(f"the feed is not asked now: it wants to be left alone for {left:,.0f} s more")
        try:
            if found := self.follower.read():
                say(tallied(found))
                self._told.clear()
        except RunError as error:
            if self.once:
                raise
            self._tell(str(error))

    def _look(self, followed: Followed) -> None:
        try:
            self.follower.look()
        except InputError as error:
            self._failed(error, followed)
        else:
            if followed.failures:
                say("the feed answers again")
                self._told.clear()
            followed.failures, self._begun = 0, True
            followed.wait_until = round((time.time() + followed.interval) * 1000)
        self.follower.store()

    def _failed(self, error: InputError, followed: Followed) -> None:
        """Tell of a feed that cannot be read, and stay away for longer each time."""
        wait = error.wait if isinstance(error, StatusError) else 0.0
        if not self.once:
            wait = max(wait, min(self.every * 2**followed.failures, LONGEST_BACKOFF))
        followed.failures = min(followed.failures + 1, MOST_FAILURES)
        followed.wait_until = round((time.time() + wait) * 1000)
        if isinstance(error, StatusError) and error.status == GONE:
            raise RunError(f"{error}: the feed is gone for good; follow another") from error
        if not for_now(error) and (self.once or not self._begun):
            raise error
        if self.once:
            self.follower.store()
            raise RunError(str(error)) from error
        self._tell(str(error))

    def _tell(self, said: str) -> None:
        if said not in self._told:
            self._told.add(said)
            say(f"{said}; tried again")


@contextmanager
def _stored(feed: str, file: Path, dry: bool) -> Iterator[tuple[Followed, Callable[[], None]]]:
    """What is known of a feed, and what keeps it; nobody else follows it by this file meanwhile."""
    lock = -1 if dry else locked(file)
    try:
        followed = _read(feed, file)
        yield followed, lambda: None if dry else _write(file, followed)
    finally:
        if lock >= 0:
            os.close(lock)


def _read(feed: str, file: Path) -> Followed:
    try:
        content = read_regular(file, LARGEST_STATE)
    except FileNotFoundError:
        return Followed(feed, feed)
    except OSError as error:
        raise InputError(f"--state: {file} cannot be read ({error.strerror})") from error
    found = read_followed(content, f"--state: {file}")
    if found.feed != feed:
        raise InputError(f"--state: {file} is of {found.feed}; give each feed a file of its own")
    return found


def _write(file: Path, followed: Followed) -> None:
    write_atomically(file, msgspec.json.encode(followed), 0o600)


def _default_state(feed: str, config: Config) -> Path:
    """A file for this feed and this control topic."""
    told = [feed, config.kafka.bootstrap_servers, config.topics.seeds]
    return state_folder() / f"follow-{urlsplit(feed).hostname}-{digest(told)[:12]}.json"
