"""The hint after the demo names what the user has, and leaves out what he has no need of."""

import os
import sys
from pathlib import Path

import pytest

from newsift.cli.demo import SAMPLES, next_steps

BIN = Path(sys.executable).parent


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("NEWSIFT_CONFIG", "NEWSIFT_KAFKA"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_kafka_it_names_the_broker_and_with_one_that() -> None:
    assert any("newsift broker" in line for line in next_steps())
    Path("config.yaml").write_text("kafka: {bootstrap_servers: 'kafka.example:9092'}")
    lines = list(next_steps())
    assert not any("newsift broker" in line for line in lines)
    assert any("faust -A worker worker" in line and "kafka.example" in line for line in lines)


def test_what_is_not_on_the_path_is_put_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    assert f"source {BIN / 'activate'}" in next(next_steps())
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}/usr/bin")
    assert "source" not in next(next_steps())


def test_paths_are_as_short_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(f"seeds add {SAMPLES}/seeds/ferry-fire.md" in line for line in next_steps())
    monkeypatch.chdir(SAMPLES.parents[1])
    assert any("seeds add worker/samples/seeds/ferry-fire.md" in line for line in next_steps())
