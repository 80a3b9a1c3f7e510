"""Passwords: where they come from, and that nothing shows them."""

import copy
import json
import logging
import pickle
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.worker.fake import Command
from worker.config import Config, load_config
from worker.config.secret import Secret
from worker.config.text import as_values
from worker.errors import ConfigError

WORD = "correct-horse"
LOGIN = {
    "NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "NEWSIFT_KAFKA__SASL_MECHANISM": "SCRAM-SHA-512",
    "NEWSIFT_KAFKA__USERNAME": "me",
}


@pytest.fixture
def config() -> Config:
    return load_config(None, LOGIN | {"NEWSIFT_KAFKA__PASSWORD": WORD})


def test_only_reveal_shows_a_secret(config: Config, caplog: pytest.LogCaptureFixture) -> None:
    secret = config.kafka.password
    assert secret is not None
    assert secret.reveal() == WORD
    logging.getLogger("x").warning("%s %r", secret, config)
    shown = [str(secret), repr(secret), f"{secret:>9}", repr(config), caplog.text,
             str(asdict(config)), str(as_values(config)), str([secret])]  # fmt: skip
    assert [text for text in shown if WORD in text] == []
    assert copy.deepcopy(secret) == copy.copy(secret) == secret
    for give_away in (pickle.dumps, json.dumps, vars):
        with pytest.raises(TypeError):
            give_away(secret)


def test_secrets_compare_by_what_they_hide() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("ü")}) == 2


def test_a_password_in_the_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    for value in (WORD, "12345", "[x]"):
        file.write_text(f"kafka:\n  password: {value}\n")
        with pytest.raises(ConfigError, match=r"line 2: kafka\.password: ") as raised:
            load_config(file, {})
        assert value not in str(raised.value)
    file.write_text("kafka:\n  password: null\n")
    assert load_config(file, {}) == Config()


def test_a_password_comes_from_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "word").write_text(f"{WORD}\n")
    file = tmp_path / "config.yaml"
    file.write_text("kafka: {password_file: word}\n")
    config = load_config(file, LOGIN)
    assert config.kafka.password == Secret(WORD)
    with pytest.raises(ConfigError, match="PASSWORD is set too; unset one of the two") as raised:
        load_config(file, LOGIN | {"NEWSIFT_KAFKA__PASSWORD": WORD})
    assert WORD not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read"), (b"", "is empty"), (b"\xff", "not UTF-8"), (b"a\nb", "more than")],
)
def test_a_bad_password_file(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "word").write_bytes(content)
    env = LOGIN | {"NEWSIFT_KAFKA__PASSWORD_FILE": str(tmp_path / "word")}
    with pytest.raises(ConfigError, match=message) as raised:
        load_config(None, env)
    assert str(raised.value).startswith("NEWSIFT_KAFKA__PASSWORD_FILE: kafka.password_file: ")


def test_what_an_error_shows_of_an_address_has_no_password() -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(None, {"NEWSIFT_KAFKA": f"me:{WORD}@host:9092"})
    assert WORD not in str(raised.value)
    assert "@host:9092" in str(raised.value)


def test_config_show_hides_the_password(newsift: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (LOGIN | {"NEWSIFT_KAFKA__PASSWORD": WORD}).items():
        monkeypatch.setenv(name, value)
    for args in (("show",), ("show", "--json"), ("check",)):
        done = newsift("config", *args)
        assert done.code == 0
        assert WORD not in done.out + done.err
    assert "password: null  # *** from NEWSIFT_KAFKA__PASSWORD" in newsift("config", "show").out
