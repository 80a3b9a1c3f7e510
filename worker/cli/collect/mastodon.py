"""`newsift collect mastodon`: a public stream of an instance, and what it missed."""

from pathlib import Path

import click

from worker.cli.collect.running import collect_options, token_option
from worker.config import Config
from worker.sources.http import needed_token
from worker.sources.mastodon.feeds import PATHS, stream_address
from worker.sources.mastodon.source import Mastodon

TOKEN = "NEWSIFT_MASTODON_TOKEN"


@click.command()
@click.option(
    "--url", required=True, metavar="URL",
    help="An instance, or one of its streams with its path.",
)  # fmt: skip
@click.option(
    "--stream", type=click.Choice(list(PATHS)), help="Which of its streams.  [default: public]"
)
@click.option("--tag", metavar="NAME", help="Of which hashtag, with --stream hashtag.")
@token_option(TOKEN)
@collect_options
def mastodon(
    url: str, stream: str | None, tag: str | None, token_file: Path | None, config: Config
) -> Mastodon:
    """Bring the posts of an instance of Mastodon to the posts topic.

    It takes the token of a user, with the scope read:statuses. What that account has muted or
    blocked, or is not in its languages, the stream leaves out. What came while nobody listened is
    read from the timeline, 300 pages in five minutes as instances allow, before what is new.
    """
    address = stream_address(url, stream, tag)
    return Mastodon(address, needed_token(TOKEN, token_file), config.stream.stall_s)
