"""`newsift collect`: the sources that there are, each imported when it is called."""

import click

from worker.cli.table import TableGroup

SOURCES = {
    "bluesky": ("worker.cli.collect.bluesky:bluesky", "Posts of Bluesky, from a Jetstream."),
    "mastodon": ("worker.cli.collect.mastodon:mastodon", "A public stream of Mastodon."),
    "files": ("worker.cli.collect.files:files", "The posts of a folder's files, as they come."),
    "x": ("worker.cli.collect.x:x", "Posts of X that match rules, at a price."),
}


@click.group(cls=TableGroup, table=SOURCES)
def collect() -> None:
    """Bring posts from where they are written to the posts topic, for as long as it runs.

    Nothing is lost that the platform can still give: how far the broker has acknowledged is kept in
    a file, from which the next start goes on. SIGTERM ends it in order. Metrics and health are
    served as the worker's are, on the next free port from 6066 on.
    """
