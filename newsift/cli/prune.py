"""`newsift prune`: deletion records for matches whose posts were deleted."""

import time

import click

from newsift.cli.options import YES, kafka_options, since_option
from newsift.cli.terminal import confirm_publish, require_yes
from newsift.operations.messages import notify
from newsift.operations.prune import Author, Pruner, prune_posts, read_author_posts
from worker.config import Config
from worker.errors import BrokerError
from worker.kafka.reading import connected
from worker.kafka.sending import sending
from worker.kafka.topics import admin_client
from worker.posts.outcome import PLATFORMS
from worker.text import one_line, plural

POLL_S = 1.0
RETRY_S = 5.0


@click.command()
@click.option(
    "--follow", is_flag=True, help="Wait for new deletions, and for a broker that is away."
)
@since_option("Deletions from this time on: 2h, or in RFC 3339; else from where it ended last.")
@click.option("--author", metavar="ID", help="All posts of this author instead.")
@click.option("--platform", type=click.Choice(PLATFORMS), help="The platform of --author.")
@YES
@kafka_options
def prune(
    follow: bool, start: int | None, author: str | None, platform: str | None, yes: bool,
    config: Config,
) -> None:  # fmt: skip
    """Write a deletion record to the topic of matches for each post that matched and is deleted.

    Deletions are messages of the posts topic: those of Bluesky, Mastodon and X. One takes effect
    once the workers have committed past it. Commands, the desk and exports then show no text,
    author or link of the post; its labels stay, without its text.

    With --author the posts that matched or have a label are counted first. ID is what the matches
    have: name@instance of Mastodon, the DID of Bluesky.
    """
    if (author is None) != (platform is None):
        raise click.UsageError("--author and --platform: give both, or neither")
    if author is not None and platform is not None:
        if follow or start is not None:
            raise click.UsageError("--author: all its posts are pruned; omit --follow and --since")
        prune_author(Author.parse(platform, author), yes, config)
        return
    while True:
        try:
            waiting = prune_deletions(follow, start, config)
            break
        except BrokerError as error:
            if not follow:
                raise
            notify(f"{error}; prune tries again, Ctrl-C ends it")
            time.sleep(RETRY_S)
    if waiting:
        notify(
            f"{plural(waiting, 'message')} of {config.topics.posts} left for when the workers "
            f"({config.kafka.group}) have read them; --follow waits for that"
        )


def prune_deletions(follow: bool, start: int | None, config: Config) -> int:
    """Returns how many messages wait for the workers."""
    with connected(config) as cluster, admin_client(config) as admin, sending(config) as outbox:
        pruner, waiting = Pruner(cluster, admin, outbox, config, start), -1
        try:
            waiting = pruner.read_new()
            while follow:
                time.sleep(POLL_S)
                waiting = pruner.read_new()
        finally:
            if waiting >= 0 or pruner.counts.deletions:  # else it was refused at once
                notify(str(pruner.counts))
    return waiting


def prune_author(author: Author, yes: bool, config: Config) -> None:
    with connected(config) as cluster:
        found = read_author_posts(cluster, config, author)
        before = f"; {found.pruned:,} have a deletion record" if found.pruned else ""
        count = plural(len(found.posts), "post")
        notify(f"{count} of {one_line(author.name)} on {author.platform} to prune{before}")
        if not found.posts:
            return
        require_yes(yes, "prune --author")
        if confirm_publish(yes, f"Write deletion records for {count}?"):
            notify(str(prune_posts(cluster, config, found.posts)))
