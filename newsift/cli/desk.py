"""`newsift desk`: the page in the browser, served until somebody ends it."""

import asyncio
import secrets

import click

from newsift.cli.options import kafka_options
from newsift.cli.services import run_services
from newsift.desk.guard import SHORTEST
from newsift.desk.session import Desk
from newsift.desk.site import DeskSite
from newsift.desk.views import ENDPOINTS
from worker import log
from worker.config import Config, WebConfig
from worker.config.secret import Secret
from worker.errors import ConfigError
from worker.metrics.visits import is_loopback

TOKEN_BYTES = 32


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="PORT",
    help="Where it is served; 6067, or the next free one.",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Show everything, and let nobody change anything.")
@click.option(
    "--no-token", is_flag=True,
    help="Ask nobody for a token: every user of this machine may then use the desk.",
)  # fmt: skip
@kafka_options
def desk(port: int | None, read_only: bool, no_token: bool, config: Config) -> None:
    """Serve the desk: a page in the browser where matches arrive, are judged, and seeds are kept.

    It is for this machine alone, and for who opens the printed address, which holds a token made
    for this start. With desk.token that token is asked for instead, and is not printed; desk.host
    then may be another address.
    """
    own = config.desk
    if own.token is None and not is_loopback(own.host):
        raise ConfigError(
            f"desk.host: {own.host} is open to others; set NEWSIFT_DESK__TOKEN or desk.token_file"
        )
    if own.token is not None and no_token:
        raise ConfigError("--no-token: but desk.token is set; leave one of the two out")
    if own.token is not None and len(own.token.reveal()) < SHORTEST:
        raise ConfigError(f"desk.token: is easily guessed; give {SHORTEST} characters or more")
    log.set_up(config.log, None)
    opened = Desk(config, read_only)
    token = None if no_token else own.token or Secret(secrets.token_urlsafe(TOKEN_BYTES))
    listen, printed = WebConfig(own.host, port), own.token is None
    site = DeskSite(opened, listen, token, ENDPOINTS, print_token=printed)
    ended = asyncio.run(run_services(lambda _leave: [site]))
    if ended is not None:
        raise ended
