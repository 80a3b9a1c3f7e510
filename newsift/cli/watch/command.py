"""`newsift watch`: forward matches to other tools."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
from aiokafka.errors import KafkaError
from yarl import URL

from encoder.errors import InputError
from newsift.cli.matches import MatchFilter, match_filter_options
from newsift.cli.options import PATH, kafka_options, since_option
from newsift.cli.services import Service, Stop, run_services
from newsift.cli.watch.delivery import MatchDelivery
from newsift.cli.watch.records import WatchMetrics
from newsift.cli.watch.stream import MatchStream
from newsift.cli.watch.webhook import Webhook, signing_secret
from newsift.operations.messages import notify
from newsift.web.addresses import parse_address
from worker import log
from worker.config import Config, WebConfig
from worker.kafka.reading import connected
from worker.kafka.settings import broker_error

GROUP = "newsift-watch"
LOCAL = "127.0.0.1"


@click.command()
@click.option("--webhook", metavar="URL", help="Where each match is POSTed as JSON, signed.")
@click.option(
    "--secret-file", metavar="FILE", type=PATH,
    help="A file with the secret that signs; by default NEWSIFT_WEBHOOK_SECRET holds it.",
)  # fmt: skip
@click.option(
    "--listen", metavar="HOST:PORT",
    help="Serve the matches as events at /matches; a port alone means 127.0.0.1.",
)  # fmt: skip
@click.option(
    "--group", default=GROUP, show_default=True, metavar="NAME",
    help="The consumer group that remembers what the webhook has acknowledged.",
)  # fmt: skip
@match_filter_options
@since_option("From this time on, 2h or in RFC 3339, where the group is new; else what comes.")
@kafka_options
def watch(
    webhook: str | None, secret_file: Path | None, listen: str | None, group: str,
    filters: MatchFilter, start: int | None, config: Config,
) -> None:  # fmt: skip
    """Forward each match to a webhook, to HTTP clients that listen, or to both.

    A match is committed when the webhook has answered 2xx: none is lost, and some arrive twice with
    the same match_id. After another answer the match is sent again, with growing pauses; only
    matches of the same event wait meanwhile. 400, 409, 413, 415 and 422 reject one match for good;
    410 ends the command. docs/watch.md explains how a receiver checks the signature, and how a
    client resumes.
    """
    if webhook is None and listen is None:
        raise InputError("watch: sends nowhere; give --webhook URL, --listen HOST:PORT, or both")
    if group in ("", config.kafka.group):
        raise InputError(f"--group {group!r}: is not for matches; give a name of its own")
    target = None if webhook is None else (parse_webhook_url(webhook), signing_secret(secret_file))
    web = None if listen is None else parse_listen(listen)
    config = replace(config, kafka=replace(config.kafka, group=group))
    with connected(config) as cluster:  # a missing broker or topic is an error at once
        partitions = len(cluster.partitions(config.topics.matches))
    log.configure_logging(config.log, None)
    if target is not None:
        notify(f"matches go to {target[0].host}, group {group}; Ctrl-C ends it")

    def services(stop: Stop) -> Sequence[Service]:
        metrics, parts = WatchMetrics(), list[Service]()
        if web is not None:
            parts.append(MatchStream(config, web, filters, start, metrics))
        if target is not None:
            hook = Webhook(*target, metrics)
            parts.append(MatchDelivery(config, filters, start, partitions, hook, metrics, stop))
        return parts

    try:
        if (failure := asyncio.run(run_services(services))) is not None:
            raise failure
    except KafkaError as error:
        raise broker_error(error, config) from error


def parse_webhook_url(url: str) -> URL:
    if (url_parts := parse_address(url, "http", "https")) is None:
        raise InputError(
            "--webhook: is not an address; give one as https://newsroom.example/matches"
        )
    return url_parts


def parse_listen(text: str) -> WebConfig:
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16 and bool(host) == bool(colon)):
        raise InputError(f"--listen {text!r}: is not an address; give a port, or as 127.0.0.1:6068")
    return WebConfig(host=host.strip("[]") or LOCAL, port=int(port))
