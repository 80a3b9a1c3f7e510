"""A whole batch on its way into a topic, past the checks of producers and of the broker."""

from contextlib import closing

from newsift.broker.batches import HEADER, Header
from newsift.broker.server import Address
from tests.broker.raw_requests import Wire
from tests.broker.server import Server


def plant(server: Server, topic: str, data: bytes) -> None:
    """Write a batch; to the log of the embedded broker itself, which would refuse a hostile one."""
    if not isinstance(server, Address):
        with closing(Wire(server.address)) as wire:
            assert wire.produce(topic, data).error_code == 0
        return

    async def append() -> None:
        log = server.broker.cluster.topics[topic].log(0)
        log.append(data, Header(*HEADER.unpack_from(data)))

    server.call(append())
