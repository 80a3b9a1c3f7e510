"""One encoder for all tests of a folder: they call many commands, and each would load it anew."""

from typing import Any

import pytest

import encoder
from encoder import Encoder
from encoder.model_directory import read_manifest
from encoder.support.named import model_directory


@pytest.fixture(scope="session")
def enc() -> Encoder:
    """The default model on the CPU."""
    return encoder.load("default", device="cpu", threads=1)


@pytest.fixture(autouse=True)
def loaded_once(enc: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str = "default", **_: Any) -> Encoder:
        read_manifest(model_directory(name))  # refuses what is not a model
        return enc

    monkeypatch.setattr(encoder, "load", load)
