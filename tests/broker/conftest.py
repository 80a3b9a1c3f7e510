"""The brokers that the contract suite runs on: embedded always, Apache Kafka when asked for."""

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.broker.server import Server, opened

_numbers = itertools.count()


ASKED = os.environ.get("NEWSIFT_TEST_KAFKA") == "apache"
BROKERS = ["embedded", "apache"] if ASKED else ["embedded"]


@pytest.fixture(scope="session", params=BROKERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A broker that all tests of this process share; each takes topics and groups of its own."""
    with opened(request.param, tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def address(server: Server) -> str:
    """What a client calls bootstrap_servers."""
    return server.address


@pytest.fixture
def unique() -> str:
    """A name for a topic or a group that no other test of this process uses."""
    return f"t{os.getpid()}-{next(_numbers)}"
