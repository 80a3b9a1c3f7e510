"""A whole batch on its way into a topic, past the checks of producers and of the broker."""

from newsift.broker.batches import HEADER, Header
from newsift.broker.server import Address
from tests.broker.raw_requests import Wire
from tests.broker.server import Server


def produce(address: str, topic: str, data: bytes) -> int:
    """Send a batch as it is to the first partition; the broker's error code."""
    with Wire(address) as wire:
        return int(wire.produce(topic, data).error_code)


def plant(server: Server, topic: str, data: bytes) -> None:
    """Write a batch; to the log of the embedded broker itself, which would refuse a hostile one."""
    if not isinstance(server, Address):
        assert produce(server.address, topic, data) == 0
        return

    async def append() -> None:
        log = server.broker.cluster.topics[topic].log(0)
        log.append(data, Header(*HEADER.unpack_from(data)))

    server.call(append())
