"""The interface of a test broker, embedded or Apache Kafka."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol


class Server(Protocol):
    @property
    def address(self) -> str:
        """What a client calls bootstrap_servers."""

    def start(self) -> None:
        """Serve again, with what was there before."""

    def stop(self) -> None:
        """Serve no more; every connection ends."""


@contextmanager
def opened(
    kind: str, folder: Path, *, auto_create: bool = True, **settings: str
) -> Iterator[Server]:
    """`settings` are of Apache Kafka alone."""
    if kind == "embedded":
        from newsift.broker.server import running

        with running(clean_interval_s=0.1, auto_create=auto_create) as broker:
            yield broker
        return
    from tests.broker.kafka import ApacheKafka

    settings |= {"auto.create.topics.enable": str(auto_create).lower()}
    kafka = ApacheKafka(folder, secure=True, **settings)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.stop()
