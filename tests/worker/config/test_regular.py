"""Files that never end, or never begin, are refused wherever the configuration names one."""

import os
from pathlib import Path

import pytest

from worker.config.load import load
from worker.errors import ConfigError
from worker.kafka.settings import tls_context


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("key", ["CONFIG", "KAFKA__PASSWORD_FILE", "KAFKA__CA_FILE"])
def test_pipes_and_devices_are_refused(kind: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "endless"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    env = {f"NEWSIFT_{key}": str(path), "NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SSL"}
    with pytest.raises(ConfigError, match=str(path)):
        tls_context(load(None, env).config)


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "huge.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(ConfigError, match="larger than 1048576 bytes"):
        load(file, {})
