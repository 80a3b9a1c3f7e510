"""One encoder for all tests of a folder: they call many commands, and each would load it anew."""

from typing import Any

import pytest

import encoder
from encoder import Encoder


@pytest.fixture(scope="session")
def enc() -> Encoder:
    """The default model on the CPU."""
    return encoder.load("default", device="cpu", threads=1)


@pytest.fixture(autouse=True)
def _loaded_once(enc: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: Any, **__: Any) -> Encoder:
        return enc

    monkeypatch.setattr(encoder, "load", load)
