from pathlib import Path

import pytest

from encoder.errors import ModelError
from encoder.support.named import MODELS, added_folder, model_directory, named_models


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def test_what_ships_comes_first_then_what_was_added_then_a_directory() -> None:
    for name in ("default", "own", ".adding-1"):
        (added_folder() / name).mkdir(parents=True)
    Path("own").mkdir()
    Path("other").mkdir()
    assert model_directory("default") == MODELS / "default"
    assert model_directory("own") == added_folder() / "own"
    assert model_directory("./own") == Path("own")
    assert model_directory(Path("own")) == Path("own")
    assert model_directory("other") == Path("other")
    assert list(named_models()) == ["default", "own"]
    with pytest.raises(ModelError, match="no such directory"):
        model_directory(".adding-1")
