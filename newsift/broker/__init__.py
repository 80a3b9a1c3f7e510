"""A Kafka broker in Python: one node, in memory, for the demo, for tests and for trying out."""

from newsift.broker.server import Broker

__all__ = ["Broker"]
