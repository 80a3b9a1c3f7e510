"""A broker that the desk's tests share, topics for each test, and a small model."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from encoder.model_directory import write_model
from newsift.operations.model_context import ModelContext
from tests.broker import conftest
from tests.broker.server import Server
from tests.encoder.small_model import small_model
from tests.newsift.desk.desk_topics import Place
from worker.config import Config, ModelConfig

server = conftest.server


@pytest.fixture
def place(server: Server, tmp_path: Path) -> Iterator[Place]:
    with closing(Place(server, tmp_path)) as place:
        yield place


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> ModelContext:
    """A model of few words; one post of the background in twenty matches."""
    folder = tmp_path_factory.mktemp("model") / "small"
    write_model(folder, small_model())
    config = replace(Config(), model=ModelConfig(name=str(folder), device="cpu", threads=1))
    return ModelContext(replace(config, matching=replace(config.matching, background_rate=0.05)))
