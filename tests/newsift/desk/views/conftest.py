"""A client of a desk with the model loaded."""

from collections.abc import Iterator

import pytest

from tests.newsift.desk.client import Client, open_desk
from tests.worker.kafka_side import Kafka


@pytest.fixture
def ask(kafka: Kafka) -> Iterator[Client]:
    with open_desk(model=True) as desk:
        yield Client(desk)
