"""`newsift broker`: the embedded Kafka broker, in the foreground."""

import asyncio
import logging
import signal

import click

from newsift.broker import Broker
from newsift.broker.settings import MIB
from worker.log import OneLine, make_handler


@click.command(context_settings={"show_default": True})
@click.option(
    "--port",
    default=9092,
    type=click.IntRange(0, 65535),
    help="The port that it listens on; 0 picks a free one.",
)
@click.option("--host", default="127.0.0.1", help="The address that it listens on.")
@click.option(
    "--retention-mb", default=512, type=click.IntRange(1), help="Memory for all records, in MiB."
)
@click.option(
    "--partitions",
    default=4,
    type=click.IntRange(1, 1000),
    help="The partitions of a topic that is created at its first use.",
)
def broker(port: int, host: str, retention_mb: int, partitions: int) -> None:  # fmt: skip
    """Run a Kafka broker, to try things out without one; Ctrl-C ends it.

    It serves Kafka clients as a cluster of one node: produce, fetch, groups, topics and their
    settings, compression, idempotent producers, compaction.

    \b
    Its limits:
    - All is in memory: topics, records, groups and their offsets end with the process. Started
      again it is empty: restart the workers too, and publish the seeds again. Beyond
      --retention-mb the oldest records of topics that are not compacted are forgotten, and no
      other: retention.ms and retention.bytes change nothing. A full compacted topic refuses more.
    - A request has at most 64 MiB (1 MiB without records) and names at most 10,000 things; a
      batch unpacks to at most 64 MiB and 131,072 records and headers. Beyond: MESSAGE_TOO_LARGE
      for a batch, INVALID_REQUEST for the first of too many names, and the connection is kept; one
      that is too long, or malformed, ends its connection, as in Apache Kafka.
    - 512 connections. Each has 30 s to send a request or take an answer, and 10 minutes between
      two requests. Incomplete requests and unsent answers have at most 256 MiB together.
    - One node, one replica. No TLS, no login, no rights: keep it on 127.0.0.1.
    - No transactions; a transactional producer is refused. Every offset is a stable one.
    - No topic ids, fetch sessions, quotas or tiered storage, and no newer group protocol
      (KIP-848); clients fall back by themselves.
    - Batches are kept as they come: no topic can ask for another compression, or another time.

    For anything that matters, use Apache Kafka: newsift runs on both unchanged.
    """  # noqa: D301 - the backspace tells click to keep the lines of the list
    handlers = [make_handler(OneLine("newsift broker: %(message)s"))]
    logging.basicConfig(level=logging.WARNING, handlers=handlers)
    asyncio.run(_serve(port, host, retention_mb * MIB, partitions))


async def _serve(port: int, host: str, retention_bytes: int, partitions: int) -> None:
    node = Broker(host, port, retention_bytes=retention_bytes, partitions=partitions)
    end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end.set)
    await node.start()
    click.echo(node.address)
    click.echo(
        f"A Kafka broker in memory, at {node.address}; Ctrl-C ends it and all it holds.", err=True
    )
    await end.wait()
    await node.stop()
