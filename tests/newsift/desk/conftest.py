"""A broker that the desk's tests share, and a place of its own for each."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.broker import conftest
from tests.broker.server import Server
from tests.newsift.desk.place import Place

server = conftest.server


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Iterator[Place]:
    """Topics that are empty; what is started there is ended with the test."""
    with closing(Place(server, tmp_path)) as made:
        yield made
