"""The brokers that the contract suite runs on: embedded always, Apache Kafka when asked for."""

import itertools
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.broker.server import Server, opened
from tests.faults.expected_matches import Oracle
from tests.faults.story import Story

_numbers = itertools.count()


STALL_S = 3.0  # the watchdog's patience
ASKED = os.environ.get("NEWSIFT_TEST_KAFKA") == "apache"
BROKERS = ["embedded", "apache"] if ASKED else ["embedded"]


@pytest.fixture(scope="session", params=BROKERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with opened(request.param, tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def address(server: Server) -> str:
    return server.address


@pytest.fixture
def unique() -> str:
    return f"t{os.getpid()}-{next(_numbers)}"


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return Oracle(tmp_path_factory.mktemp("oracle"))


@pytest.fixture
def story(server: Server, tmp_path: Path, oracle: Oracle) -> Iterator[Story]:
    with closing(Story(server, tmp_path, oracle, fork=False)) as answer:
        yield answer


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_STREAM__STALL_S", str(STALL_S))
