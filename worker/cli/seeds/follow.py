"""`newsift seeds follow`: the articles of a feed as seeds, for as long as it goes on."""

from pathlib import Path

import click

from worker.actions.seeds.fetch import Bounds, web_address
from worker.actions.seeds.polite import PoliteWeb
from worker.actions.seeds.round import Follower, Plan
from worker.actions.seeds.tour import Tour, default_state_of, stored
from worker.actions.times import seconds
from worker.cli.options import kafka_options
from worker.cli.signals import ended_by_sigterm
from worker.cli.terminal import say
from worker.config import Config
from worker.seeds.values import event_in

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
    file = state or default_state_of(feed, config)
    with ended_by_sigterm(), stored(feed, file, dry) as (followed, store):
        say(f"following {feed}; what is known of it is in {file}")
        Tour(Follower(web, followed, plan, config, store, click.echo), pause, once or dry).go()
