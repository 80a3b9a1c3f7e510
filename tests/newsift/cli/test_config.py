"""`newsift config check` and `show`."""

from pathlib import Path

import pytest

from tests.worker.fake import Command
from worker.config import Config, load_config


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_check_names_a_model_that_is_not_there(newsift: Command) -> None:
    Path("config.yaml").write_text("model: {name: defualt}\n")
    done = newsift("config", "check")
    assert (done.code, done.out) == (2, "")
    assert "config.yaml line 1: model.name: model 'defualt': no such directory" in done.err
    assert "(default)" in done.err


def test_check_names_what_is_not_by_default(
    newsift: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("config.yaml").write_text("log: {level: info}\nweb: {port: 80}\n")
    monkeypatch.setenv("NEWSIFT_MATCHING__THRESHOLD", "0.5")
    done = newsift("config", "check")
    assert done.err == "config.yaml: right; not by default: matching.threshold, web.port\n"


def test_check_refuses_with_file_key_value_and_remedy(newsift: Command) -> None:
    Path("mine.yaml").write_text("web:\n  prot: 80\n")
    done = newsift("config", "check", "--config", "mine.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "newsift: mine.yaml line 2: web.prot: unknown key; did you mean web.port?\n"
    )


def test_check_opens_the_certificates(newsift: Command) -> None:
    Path("config.yaml").write_text("kafka: {security_protocol: SSL, ca_file: gone.pem}\n")
    done = newsift("config", "check")
    assert done.code == 2
    assert "kafka.ca_file: gone.pem is refused (No such file" in done.err


def test_show_can_be_read_again(newsift: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_TOPICS__POSTS", "no")
    monkeypatch.setenv("NEWSIFT_MODEL__THREADS", "2")
    done = newsift("config", "show", "--kafka", "b:1")
    assert "  threads: 2  # from NEWSIFT_MODEL__THREADS\n" in done.out
    assert "  bootstrap_servers: b:1  # from NEWSIFT_KAFKA\n" in done.out
    assert "  group: newsift-ingest\n" in done.out
    Path("again.yaml").write_text(done.out)
    again = load_config(Path("again.yaml"), {})
    assert (again.topics.posts, again.model.threads) == ("no", 2)
    assert again.kafka.bootstrap_servers == "b:1"


def test_the_template_is_the_file_that_ships(newsift: Command) -> None:
    done = newsift("config", "show", "--template")
    assert done.out == (Path(__file__).parents[3] / "config.yaml").read_text("utf-8")
    Path("config.yaml").write_text(done.out)
    assert load_config(None, {}) == Config()
