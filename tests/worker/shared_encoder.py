"""One encoder for all tests of a folder: they call many commands, and each would load it anew."""

from dataclasses import replace
from typing import Any

import pytest

import encoder
from encoder import Encoder
from encoder.embeddings import Background
from encoder.model_directory import Model, read_manifest, read_model
from encoder.readers.choose import open_readers
from encoder.support.named import model_directory


def model_without_star() -> Model:
    """The default model where posts are read as they are skimmed, a hundred times as fast."""
    whole = read_model(model_directory("default"))
    return replace(whole, star=None, background=Background.of_one_reader(whole.background.skim))


@pytest.fixture(scope="session")
def enc() -> Encoder:
    model = model_without_star()
    return Encoder(model, open_readers(model, "cpu", 1))


@pytest.fixture(autouse=True)
def loaded_once(enc: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str = "default", **_: Any) -> Encoder:
        read_manifest(model_directory(name))  # refuses what is not a model
        return enc

    monkeypatch.setattr(encoder, "load", load)
