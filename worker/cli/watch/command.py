"""`newsift watch`: matches go on to other tools until somebody ends it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
from aiokafka.errors import KafkaError
from yarl import URL

from encoder.errors import InputError
from worker.cli.options import kafka_options, since_option
from worker.cli.terminal import say
from worker.cli.wanted import Wanted, wanted_options
from worker.cli.watch.counts import WatchCounts
from worker.cli.watch.courier import Courier
from worker.cli.watch.running import Leave, Part, live
from worker.cli.watch.stream import MatchStream
from worker.cli.watch.webhook import Webhook, signing_secret
from worker.config import Config, WebConfig
from worker.config.secret import Secret
from worker.kafka.reading import connected
from worker.kafka.settings import broker_error
from worker.service import log
from worker.sources.http import address

GROUP = "newsift-watch"
LOCAL = "127.0.0.1"


@click.command()
@click.option("--webhook", metavar="URL", help="Where each match is POSTed as JSON, signed.")
@click.option(
    "--secret-file", metavar="FILE", type=click.Path(path_type=Path),
    help="The secret that signs; else NEWSIFT_WEBHOOK_SECRET.",
)  # fmt: skip
@click.option(
    "--listen", metavar="HOST:PORT",
    help="Serve the matches as events at /matches; a port alone is on 127.0.0.1.",
)  # fmt: skip
@click.option(
    "--group", default=GROUP, show_default=True, metavar="NAME",
    help="The consumer group that remembers what the webhook has acknowledged.",
)  # fmt: skip
@wanted_options
@since_option("From this time on, 2h or in RFC 3339, where the group is new; else what comes.")
@kafka_options
def watch(
    webhook: str | None, secret_file: Path | None, listen: str | None, group: str, wanted: Wanted,
    start: int | None, config: Config,
) -> None:  # fmt: skip
    """Send each match on, as it comes, to a webhook, to who listens, or to both.

    A match is committed once the webhook has answered 2xx, so none is lost and some come twice:
    tell them by match_id. What it does not take is sent again, ever more slowly; only its own
    event waits meanwhile. 400, 409, 413, 415 and 422 refuse one match for good, 410 ends the
    command. docs/watch.md says how a receiver checks the signature, and how a listener goes on
    where it left off.
    """
    if webhook is None and listen is None:
        raise InputError("watch: sends nowhere; give --webhook URL, --listen HOST:PORT, or both")
    if group in ("", config.kafka.group):
        raise InputError(f"--group {group!r}: is not for matches; give a name of its own")
    target = None if webhook is None else (receiver(webhook), signing_secret(secret_file))
    web = None if listen is None else listening(listen)
    own = replace(config, kafka=replace(config.kafka, group=group))
    _run(own, wanted, start, target, web)


def _run(
    config: Config, wanted: Wanted, since: int | None, target: tuple[URL, Secret] | None,
    web: WebConfig | None,
) -> None:  # fmt: skip
    with connected(config) as cluster:  # a broker that is not there is told of at once
        cluster.partitions(config.topics.matches)
    log.set_up(config.log, None)
    _tell(config, target, web)
    try:
        ended = asyncio.run(live(lambda leave: _parts(config, wanted, since, target, web, leave)))
    except KafkaError as error:
        raise broker_error(error, config) from error
    if ended is not None:
        raise broker_error(ended, config) if isinstance(ended, KafkaError) else ended


def receiver(url: str) -> URL:
    """The address of a webhook."""
    if (found := address(url, "http", "https")) is None:
        raise InputError("--webhook: is no address; give one as https://newsroom.example/matches")
    return found


def listening(text: str) -> WebConfig:
    """The host and the port that --listen names."""
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16 and bool(host) == bool(colon)):
        raise InputError(f"--listen {text!r}: is no address; give a port, or as 127.0.0.1:6068")
    return WebConfig(host=host.strip("[]") or LOCAL, port=int(port))


def _parts(
    config: Config, wanted: Wanted, since: int | None, target: tuple[URL, Secret] | None,
    web: WebConfig | None, leave: Leave,
) -> Sequence[Part]:  # fmt: skip
    counts, parts = WatchCounts(), list[Part]()
    if web is not None:
        parts.append(MatchStream(config, web, wanted, since, counts))
    if target is not None:
        parts.append(Courier(config, wanted, since, Webhook(*target, counts), counts, leave))
    return parts


def _tell(config: Config, target: tuple[URL, Secret] | None, web: WebConfig | None) -> None:
    if target is not None:
        say(f"matches go to {target[0].host}, group {config.kafka.group}; Ctrl-C ends it")
    if web is not None and web.port:
        host = f"[{web.host}]" if ":" in web.host else web.host
        say(f"matches are served at http://{host}:{web.port}/matches; Ctrl-C ends it")
