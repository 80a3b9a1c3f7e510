"""`newsift collect bluesky`: posts of Bluesky, from a Jetstream."""

import click

from worker.cli.collect.running import collect_options
from worker.config import Config
from worker.sources.bluesky import HOSTS, Bluesky
from worker.sources.jetstream import POSTS


@click.command()
@click.option(
    "--url", "urls", multiple=True, metavar="URL",
    help="A Jetstream, with its path, which says whether it is v1 or v2; given again, one to go "
    f"on with when another fails.  [default: {HOSTS[0]}, and three more]",
)  # fmt: skip
@click.option(
    "--collection", "collections", multiple=True, metavar="NSID",
    help=f"Of the records; .* at its end stands for all below.  [default: {POSTS}]",
)  # fmt: skip
@click.option(
    "--lang",
    "langs",
    multiple=True,
    metavar="LANG",
    help="Only posts whose author names this language, or none; may be given again.",
)
@collect_options
def bluesky(
    urls: tuple[str, ...], collections: tuple[str, ...], langs: tuple[str, ...], config: Config
) -> Bluesky:
    """Bring the posts of Bluesky to the posts topic.

    A Jetstream streams them to whoever asks, by one of two interfaces: /subscribe (v1) and
    /xrpc/network.bsky.jetstream.subscribeEvents (v2). It looks back for a day and a half; what has
    come since is not lost when this ends and is started again, here or from another host.
    """
    return Bluesky(urls, collections, langs, config.stream.stall_s)
