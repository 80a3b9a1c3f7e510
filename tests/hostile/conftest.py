"""One worker that the attacks of a session share: whatever one does to it, the next would see."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from encoder.model_directory import write_model
from tests.broker import conftest
from tests.broker.server import Server
from tests.encoder.small_model import small_model
from tests.hostile.target import Target

server = conftest.server  # it makes topics when a client asks for them, as many do

waits_long = pytest.mark.skipif(
    not conftest.ASKED,
    reason="takes minutes, most of them waiting; NEWSIFT_TEST_KAFKA=apache runs it",
)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    write_model(folder, small_model())
    return folder


@pytest.fixture(scope="session")
def shared_target(
    server: Server, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("target")
    with closing(Target(server, folder, model, fork=not conftest.ASKED)) as shared:
        yield shared


@pytest.fixture
def target(shared_target: Target) -> Target:
    """The worker that all attacks share, as the last has left it: alive."""
    assert shared_target.worker.alive(), shared_target.worker.output
    shared_target.worker.ready()
    return shared_target


@pytest.fixture
def own_target(server: Server, model: Path, tmp_path: Path) -> Iterator[Target]:
    with closing(Target(server, tmp_path, model)) as own:
        yield own
