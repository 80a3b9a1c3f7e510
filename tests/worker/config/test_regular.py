"""What never ends, or never begins, is refused in the place of a file."""

import os
import socket
from pathlib import Path

import pytest

from encoder.support.files import read_regular
from tests.worker.fake import Command
from worker.config.load import load
from worker.errors import ConfigError
from worker.kafka.settings import tls_context


@pytest.fixture(params=["pipe", "device", "socket", "link to a pipe"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Something that is no file, and would keep a reader waiting or reading."""
    path = tmp_path / "config.yaml"
    if request.param == "device":
        path.symlink_to("/dev/zero")
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(path))
    elif request.param == "pipe":
        os.mkfifo(path)
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("pipe")
    return path


def test_the_configuration(newsift: Command, endless: Path) -> None:
    done = newsift("config", "check", "--config", endless)
    assert done.code == 2
    assert f"newsift: {endless}: cannot be read (" in done.err
    with pytest.raises(ConfigError, match="cannot be read"):
        load(None, {"NEWSIFT_CONFIG": str(endless)})


def test_the_password(endless: Path) -> None:
    with pytest.raises(ConfigError, match=r"kafka\.password_file: .*cannot be read"):
        load(None, {"NEWSIFT_KAFKA__PASSWORD_FILE": str(endless)})


@pytest.mark.parametrize("key", ["CA_FILE", "CERT_FILE"])
def test_certificates(endless: Path, key: str) -> None:
    env = {"NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SSL", f"NEWSIFT_KAFKA__{key}": str(endless),
           "NEWSIFT_KAFKA__KEY_FILE": __file__ if key == "CERT_FILE" else ""}  # fmt: skip
    config = load(None, env).config
    with pytest.raises(ConfigError, match=f"kafka.{key.lower()}: .* is refused"):
        tls_context(config)


def test_a_huge_file_is_not_read_whole(newsift: Command, tmp_path: Path) -> None:
    file = tmp_path / "huge.yaml"
    with file.open("wb") as made:
        made.truncate(2**40)
    done = newsift("config", "check", "--config", file)
    assert (done.code, "larger than 1048576 bytes" in done.err) == (2, True), done.err


def test_a_file_behind_links_is_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 4) == b"text"
