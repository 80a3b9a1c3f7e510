"""The brokers that the contract suite runs on: embedded always, Apache Kafka when asked for."""

import itertools
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.broker.server import Server, opened
from tests.broker.workers import STALL_S
from tests.faults.expected import Oracle
from tests.faults.story import Story

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


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """A small model with two seeds, and what they match."""
    return Oracle(tmp_path_factory.mktemp("oracle"))


@pytest.fixture
def story(server: Server, tmp_path: Path, oracle: Oracle) -> Iterator[Story]:
    """A story on topics of its own, its workers started by the command; none stays."""
    with closing(Story(server, tmp_path, oracle, fork=False)) as told:
        yield told


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers whose watchdog waits three seconds."""
    monkeypatch.setenv("NEWSIFT_STREAM__STALL_S", str(STALL_S))
