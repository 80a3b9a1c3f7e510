"""The model is loaded in the background; requests that need it are refused with the reason."""

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

import encoder
from encoder.errors import InputError
from encoder.model_directory import write_model
from newsift.desk.model import Model
from tests.encoder.small import small_model
from tests.worker.small import same, value
from worker.config import Config, ModelConfig
from worker.seeds.state import ControlState, control_state


def control(**seeds: str) -> ControlState:
    records = {name.encode(): value(text=text, event="flood") for name, text in seeds.items()}
    return control_state(records)


def config_with(name: str) -> Config:
    return replace(Config(), model=ModelConfig(name=name, device="cpu", threads=1))


@pytest.fixture
def small(tmp_path: Path) -> Config:
    write_model(tmp_path / "model", small_model())
    created = config_with(str(tmp_path / "model"))
    return replace(created, matching=replace(created.matching, background_rate=0.05))


def test_a_model_is_there_once_it_is_loaded(small: Config) -> None:
    messages: list[str] = []
    model = Model(small, lambda: control(), lambda: messages.append(model.away))
    assert model.now() is None
    assert "loaded" in model.away
    with pytest.raises(InputError, match="model: the model is still being loaded"):
        model.wait(0)
    model.start()
    teacher = model.wait()
    assert model.now() is teacher
    assert (model.away, messages) == ("", [""])
    assert teacher.enc.digest == encoder.load(small.model.name, device="cpu").digest


@pytest.mark.parametrize("broken", [InputError("model: no"), ZeroDivisionError("by zero")])
def test_a_model_that_is_refused_says_so_to_all(
    broken: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise broken

    monkeypatch.setattr(encoder, "load", refuse)
    changed = Event()
    model = Model(config_with("default"), lambda: control(), changed.set)
    model.start()
    with pytest.raises(InputError, match=str(broken)):
        model.wait()
    assert changed.wait(10)
    assert model.now() is None
    assert str(broken) in model.away


def test_the_events_are_made_once_for_each_version_of_the_records(small: Config) -> None:
    now = control(a="storm flood river")
    model = Model(small, lambda: now, lambda: None)
    with pytest.raises(InputError, match="still being loaded"):
        model.events()
    model.start()
    teacher = model.wait()
    first = model.view()
    assert [seed.id for seed in model.events()["flood"].seeds] == ["a"]
    assert model.view() is first
    now = control(a="storm flood river", b="city river")
    assert [seed.id for seed in model.events()["flood"].seeds] == ["a", "b"]
    assert same(model.view().seeds, teacher.seed_set(now))
