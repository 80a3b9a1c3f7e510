from pathlib import Path

import pytest

from tests.worker.fake import Command
from worker.config import Config, load_config


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("model: {name: defualt}", "config.yaml line 1: model.name: model 'defualt': no such"),
        ("web:\n  prot: 80", "config.yaml line 2: web.prot: unknown key; did you mean web.port?"),
        ("kafka: {security_protocol: SSL, ca_file: gone.pem}", "kafka.ca_file: gone.pem"),
    ],
)
def test_check_names_place_key_and_remedy(newsift: Command, content: str, message: str) -> None:
    Path("config.yaml").write_text(content)
    done = newsift("config", "check", "--config", "config.yaml")
    assert (done.code, done.out, message in done.err) == (2, "", True), done.err


def test_check_names_changed_keys(newsift: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("config.yaml").write_text("log: {level: info}\nweb: {port: 80}\n")
    monkeypatch.setenv("NEWSIFT_MATCHING__THRESHOLD", "0.5")
    done = newsift("config", "check")
    assert done.err == "config.yaml: right; not by default: matching.threshold, web.port\n"


def test_show_can_be_read_again(newsift: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_MODEL__THREADS", "2")
    done = newsift("config", "show", "--kafka", "b:1")
    assert "  threads: 2  # from NEWSIFT_MODEL__THREADS\n" in done.out
    Path("again.yaml").write_text(done.out)
    again = load_config(Path("again.yaml"), {})
    assert (again.model.threads, again.kafka.bootstrap_servers) == (2, "b:1")


def test_the_template_is_the_file_that_ships(newsift: Command) -> None:
    done = newsift("config", "show", "--template")
    assert done.out == (Path(__file__).parents[3] / "config.yaml").read_text("utf-8")
    Path("config.yaml").write_text(done.out)
    assert load_config(None, {}) == Config()
