from pathlib import Path

import pytest

from tests.worker.fake_command import Command
from worker.config.load import load_config


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_check_names_changed_keys(newsift: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("config.yaml").write_text("log: {level: info}\nweb: {port: 80}\n")
    monkeypatch.setenv("NEWSIFT_MATCHING__THRESHOLD", "0.5")
    done = newsift("config", "check")
    assert done.err == "config.yaml: valid; not the default: matching.threshold, web.port\n"


def test_check_names_a_variable_that_nothing_reads(
    newsift: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKAA", "b:1")
    done = newsift("config", "check")
    assert done.code == 0
    assert "NEWSIFT_KAFKAA: no such variable; did you mean NEWSIFT_KAFKA?\n" in done.err


def test_show_can_be_read_again(newsift: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_MODEL__THREADS", "2")
    monkeypatch.setenv("NEWSIFT_MATCHING__BACKGROUND", "/data/🔥 é.safetensors")
    done = newsift("config", "show", "--kafka", "b:1")
    assert "  threads: 2  # from NEWSIFT_MODEL__THREADS\n" in done.out
    Path("again.yaml").write_text(done.out)
    again = load_config(Path("again.yaml"), {})
    assert (again.model.threads, again.kafka.bootstrap_servers) == (2, "b:1")
    assert again.matching.background == Path("/data/🔥 é.safetensors")


def test_the_template_is_the_file_that_ships(newsift: Command) -> None:
    done = newsift("config", "show", "--template")
    assert done.out == (Path(__file__).parents[3] / "config.yaml").read_text("utf-8")
