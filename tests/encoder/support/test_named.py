from pathlib import Path

import pytest

from encoder.errors import ModelError
from encoder.support.named import MODELS, model_directory, named_models


def test_what_ships_comes_first_then_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("default", "own"):
        Path(name).mkdir()
    assert named_models() == ["default"]
    assert model_directory("default") == MODELS / "default"
    assert model_directory("./default") == Path("default")
    assert model_directory("own") == Path("own")
    with pytest.raises(ModelError, match="no such directory"):
        model_directory("other")
