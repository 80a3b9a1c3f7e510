"""A broker, a model and an empty story for each test of a fault."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.broker import conftest
from tests.broker.server import Server, opened
from tests.faults.expected_matches import Oracle
from tests.faults.story import Story

oracle = conftest.oracle


@pytest.fixture(scope="session", params=conftest.BROKERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with opened(request.param, tmp_path_factory.mktemp("broker"), auto_create=False) as broker:
        yield broker


# Each story at its full length, with each worker started by the command itself.
FULL = os.environ.get("NEWSIFT_TEST_FAULTS") == "full"


@pytest.fixture
def story(server: Server, tmp_path: Path, oracle: Oracle) -> Iterator[Story]:
    with closing(Story(server, tmp_path, oracle, fork=not FULL)) as answer:
        yield answer
        assert answer.events or any(worker.proofs for worker in answer.workers), "no fault occurred"
