"""The commands reach the servers of their tests, whatever proxy the environment names."""

import pytest

from tests.worker.loaded_once import enc, loaded_once

__all__ = ["enc", "loaded_once"]

NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "request_method")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
