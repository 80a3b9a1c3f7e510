"""The commands reach the servers of their tests, whatever proxy the environment names."""

import pytest

from tests.worker.shared_encoder import enc, loaded_once

__all__ = ["enc", "loaded_once"]


@pytest.fixture(autouse=True)
def no_proxy(no_proxy: None) -> None:
    """Without exception."""
