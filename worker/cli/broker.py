"""`newsift broker`: the embedded Kafka broker, in the foreground."""

import asyncio
import logging
import signal

import click

from worker.broker import Broker
from worker.broker.settings import MIB


@click.command()
@click.option(
    "--port",
    default=9092,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Where it listens; 0 picks one.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="On which address.")
@click.option(
    "--retention-mb",
    default=512,
    show_default=True,
    type=click.IntRange(1),
    help="Memory for all records, in MiB.",
)
@click.option(
    "--partitions",
    default=4,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="Of a topic that is made by being used.",
)
def broker(port: int, host: str, retention_mb: int, partitions: int) -> None:
    """Run a Kafka broker, to try things out without one; Ctrl-C ends it.

    It serves Kafka clients as a cluster of one node: produce, fetch, groups, topics and their
    settings, compression, idempotent producers, compaction.

    \b
    Its limits:
    - All is in memory: it ends with the process, and beyond --retention-mb the oldest records
      of topics that are not compacted are forgotten. A full compacted topic refuses more.
    - One node, one replica. No TLS, no login, no rights: keep it on 127.0.0.1.
    - No transactions; a transactional producer is refused. Every offset is a stable one.
    - No topic ids, fetch sessions, quotas or tiered storage, and no newer group protocol
      (KIP-848); clients fall back by themselves.
    - Batches are kept as they come: no topic can ask for another compression.

    For anything that matters, use Apache Kafka: newsift runs on both unchanged.
    """  # noqa: D301 - the backspace tells click to keep the lines of the list
    logging.basicConfig(level=logging.WARNING, format="newsift broker: %(message)s")
    asyncio.run(_serve(port, host, retention_mb * MIB, partitions))


async def _serve(port: int, host: str, retention_bytes: int, partitions: int) -> None:
    node = Broker(host, port, retention_bytes=retention_bytes, partitions=partitions)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await node.start()
    click.echo(node.address)
    click.echo(f"A Kafka broker in memory, at {node.address}; Ctrl-C ends it.", err=True)
    await ended.wait()
    await node.stop()
