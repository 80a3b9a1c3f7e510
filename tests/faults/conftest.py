"""A broker, a model and an empty story for each test of a fault."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.conftest import BROKERS
from tests.broker.server import Server, opened
from tests.faults.expected import Oracle
from tests.faults.story import Story


@pytest.fixture(scope="session", params=BROKERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A broker that makes no topic by itself, so that a topic can be gone."""
    with opened(request.param, tmp_path_factory.mktemp("broker"), auto_create=False) as broker:
        yield broker


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """A small model with two seeds, and what they match."""
    return Oracle(tmp_path_factory.mktemp("oracle"))


@pytest.fixture
def story(server: Server, tmp_path: Path, oracle: Oracle) -> Iterator[Story]:
    """A story on topics of its own; whatever happens in it, no process stays."""
    told = Story(server, tmp_path, oracle)
    try:
        yield told
    finally:
        told.close()
