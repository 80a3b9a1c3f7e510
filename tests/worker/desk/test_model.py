"""The model of a desk: nobody waits for it, and who needs it is told why it is not there."""

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

import encoder
from encoder.directory import write_model
from encoder.errors import InputError
from tests.encoder.small import small_model
from worker.config import Config, ModelConfig
from worker.desk.model import Model


def config_with(name: str) -> Config:
    return replace(Config(), model=ModelConfig(name=name, device="cpu", threads=1))


@pytest.fixture
def small(tmp_path: Path) -> Config:
    """A configuration whose model is there at once."""
    write_model(tmp_path / "model", small_model())
    made = config_with(str(tmp_path / "model"))
    return replace(made, matching=replace(made.matching, background_rate=0.05))


def test_a_model_is_there_once_it_is_loaded(small: Config) -> None:
    told: list[str] = []
    model = Model(small, lambda: told.append(model.away))
    assert model.now() is None
    assert "loaded" in model.away
    with pytest.raises(InputError, match="model: the model is still being loaded"):
        model.wait(0)
    model.start()
    teacher = model.wait()
    assert model.now() is teacher
    assert (model.away, told) == ("", [""])
    assert teacher.enc.digest == encoder.load(small.model.name, device="cpu").digest


@pytest.mark.parametrize("broken", [InputError("model: no"), ZeroDivisionError("by zero")])
def test_a_model_that_is_refused_says_so_to_all(
    broken: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise broken

    monkeypatch.setattr(encoder, "load", refuse)
    moved = Event()
    model = Model(config_with("default"), moved.set)
    model.start()
    with pytest.raises(InputError, match=str(broken)):
        model.wait()
    assert moved.wait(10)
    assert model.now() is None
    assert str(broken) in model.away
