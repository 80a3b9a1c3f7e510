"""The fixtures of the worker's tests, and a reader of pages in this process."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.worker.conftest import anyio_backend, kafka

__all__ = ["anyio_backend", "kafka"]


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEWSIFT_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def read_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read pages and feeds in this process, as another one takes half a second to start."""

    def read(reader: Callable[..., Any], body: bytes, *about: str | None, **_: Any) -> bytes:
        return msgspec.json.encode(reader(body, *about))

    monkeypatch.setattr("newsift.files.articles.run_in_subprocess", read)
    monkeypatch.setattr("newsift.operations.feeds.run_in_subprocess", read)
    monkeypatch.setattr("newsift.web.feeds.run_in_subprocess", read)


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in list(os.environ):
        if key.lower().endswith("_proxy"):
            monkeypatch.delenv(key)
