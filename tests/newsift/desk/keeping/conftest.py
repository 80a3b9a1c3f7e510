"""One encoder for all, and a desk that is asked."""

from collections.abc import Iterator

import pytest

from tests.newsift.desk.keeping.asked import Asked, desk_of_its_own
from tests.worker.kafka_side import Kafka
from tests.worker.loaded_once import enc, loaded_once

__all__ = ["enc", "loaded_once"]


@pytest.fixture
def ask(kafka: Kafka) -> Iterator[Asked]:
    """A desk on a broker with all topics."""
    with desk_of_its_own() as asked:
        yield asked
