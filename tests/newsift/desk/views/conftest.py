"""A client of a desk with the model loaded."""

from collections.abc import Iterator

import pytest

from tests.newsift.desk.desk_client import Client, open_desk
from tests.worker.command_topics import Kafka


@pytest.fixture
def ask(kafka: Kafka) -> Iterator[Client]:
    with open_desk(model=True) as desk:
        yield Client(desk)
