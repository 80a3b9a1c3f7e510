"""The model of a desk: nobody waits for it, and who needs it is told why it is not there."""

from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import cast

import pytest

import encoder
from encoder.directory import write_model
from encoder.errors import InputError
from tests.encoder.small import small_model
from tests.worker.small import Mail, same, value
from worker.actions.keyed import Latest
from worker.config import Config, ModelConfig
from worker.desk import model as room
from worker.desk import turn
from worker.desk.known import Control
from worker.desk.model import Model
from worker.errors import BrokerError
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedBook, SeedSet


def control(version: int, **seeds: str) -> Control:
    """The control topic with these seeds, of the event flood."""
    records = {
        name.encode(): Mail(value(text=text, event="flood"), key=name.encode())
        for name, text in seeds.items()
    }
    book = SeedBook()
    for key, record in records.items():
        book.apply(key, record.value)
    return Control(version, cast(Latest, records), book, 0)


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
    model = Model(small, lambda: control(1), lambda: told.append(model.away))
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
    model = Model(config_with("default"), lambda: control(1), moved.set)
    model.start()
    with pytest.raises(InputError, match=str(broken)):
        model.wait()
    assert moved.wait(10)
    assert model.now() is None
    assert str(broken) in model.away


def test_the_events_are_made_once_for_each_version_of_the_records(small: Config) -> None:
    now = control(1, a="storm flood river")
    model = Model(small, lambda: now, lambda: None)
    with pytest.raises(InputError, match="still being loaded"):
        model.events()
    model.start()
    teacher = model.wait()
    first = model.standing()
    assert [seed.id for seed in model.events()["flood"].seeds] == ["a"]
    assert model.standing() is first
    now = control(2, a="storm flood river", b="city river")
    assert [seed.id for seed in model.events()["flood"].seeds] == ["a", "b"]
    assert same(model.standing().seeds, teacher.seed_set(now.values))


def test_while_many_seeds_are_read_nobody_waits_for_long(
    small: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (room, turn):
        monkeypatch.setattr(each, "PATIENCE_S", 0.05)
    moved, begun, go, make = Event(), Event(), Event(), SeedEmbedder.make

    def slowly(embedder: SeedEmbedder, book: SeedBook) -> SeedSet:
        begun.set()
        assert go.wait(20)
        return make(embedder, book)

    model = Model(small, lambda: control(1, a="storm flood river"), moved.set)
    model.start()
    model.wait()
    assert moved.wait(10)
    moved.clear()
    monkeypatch.setattr(SeedEmbedder, "make", slowly)
    maker = Thread(target=model.standing)
    maker.start()
    assert begun.wait(10)
    with pytest.raises(BrokerError, match="many seeds are being read; try again"):
        model.standing()
    go.set()
    maker.join(20)
    assert moved.is_set()
    assert [seed.id for seed in model.standing().seeds.seeds] == ["a"]
