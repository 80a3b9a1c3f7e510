"""A small model that is loaded once for the tests of a folder."""

from dataclasses import replace

import pytest

from encoder.model_directory import write_model
from newsift.operations.model_context import ModelContext
from tests.encoder.small import small_model
from worker.config import Config, ModelConfig


@pytest.fixture(scope="session")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> ModelContext:
    """A model of few words, which lets one everyday post in twenty match."""
    folder = tmp_path_factory.mktemp("model") / "small"
    write_model(folder, small_model())
    config = replace(Config(), model=ModelConfig(name=str(folder), device="cpu", threads=1))
    return ModelContext(replace(config, matching=replace(config.matching, background_rate=0.05)))
