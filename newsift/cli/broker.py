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
def broker(port: int, host: str, retention_mb: int, partitions: int) -> None:
    """Run a Kafka broker, to try things out without one; Ctrl-C ends it.

    It serves Kafka clients as a cluster of one node: produce, fetch, groups, topics and their
    settings, compression, idempotent producers, compaction.

    \b
    Its limits:
    - Everything is in memory: topics, records, groups and their offsets are lost when the process
      ends. After a restart, restart the workers too and publish the seeds again. Beyond
      --retention-mb the oldest records are deleted, except those of compacted topics; retention.ms
      and retention.bytes have no effect. A full compacted topic refuses more records.
    - A request has at most 64 MiB (1 MiB without records) and at most 10,000 items; a batch
      unpacks to at most 64 MiB and 131,072 records and headers. A batch beyond that is refused
      with MESSAGE_TOO_LARGE, too many items with INVALID_REQUEST; the connection stays open. A
      request that is too long or malformed closes it, as in Apache Kafka.
    - 512 connections. Each has 30 s to send a request or read an answer, and 10 minutes between
      two requests. Incomplete requests and unsent answers have at most 256 MiB together.
    - One node, one replica. No TLS, no login, no access control: bind it to 127.0.0.1.
    - No transactions; a transactional producer is refused. Every offset is a stable one.
    - No topic ids, fetch sessions, quotas or tiered storage, and no newer group protocol
      (KIP-848); clients fall back by themselves.
    - Batches are stored as they were sent: a topic's compression.type and message.timestamp.type
      can have only their defaults.

    For anything that matters, use Apache Kafka: newsift runs on both unchanged.
    """  # noqa: D301 - the backspace tells click to keep the lines of the list
    handlers = [make_handler(OneLine("newsift broker: %(message)s"))]
    logging.basicConfig(level=logging.WARNING, handlers=handlers)
    asyncio.run(_serve(port, host, retention_mb * MIB, partitions))


async def _serve(port: int, host: str, retention_bytes: int, partitions: int) -> None:
    node = Broker(host, port, retention_bytes=retention_bytes, partitions=partitions)
    signals = asyncio.Queue[signal.Signals]()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signals.put_nowait, number)
    await node.start()
    click.echo(node.address)
    click.echo(
        f"A Kafka broker in memory, at {node.address}; Ctrl-C ends it and all it holds.", err=True
    )
    ended_by = await signals.get()
    await node.stop()
    if ended_by == signal.SIGINT:
        raise KeyboardInterrupt
