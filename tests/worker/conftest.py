"""A broker of a test's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.command_topics import Kafka


@pytest.fixture
def anyio_backend() -> str:
    """Tests that are coroutines run in asyncio's event loop, in which the worker runs."""
    return "asyncio"


@pytest.fixture
def kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["Kafka"]:
    """A broker that the commands reach, and no configuration but the default.

    It is the test's own, as its topics have the names that the default configuration gives them;
    it starts and ends in 10 ms.
    """
    from tests.worker.command_topics import broker_of_its_own

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEWSIFT_CONFIG", raising=False)
    with broker_of_its_own() as result:
        monkeypatch.setenv("NEWSIFT_KAFKA", str(result.address))
        yield result
