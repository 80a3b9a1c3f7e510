"""The process that reads strangers' bytes: what it is given of ours."""

import json
import os

import pytest

from newsift.files.apart import run_in_subprocess


def environment_of(_body: bytes, _name: str) -> dict[str, str]:
    """What a reader finds in its environment."""
    return dict(os.environ)


def test_a_reader_of_strangers_bytes_has_no_secret_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEWSIFT_KAFKA__PASSWORD", "NEWSIFT_DESK__TOKEN", "HTTPS_PROXY", "HOME", "LANG",
                 "TMPDIR", "LD_LIBRARY_PATH"):  # fmt: skip
        monkeypatch.setenv(name, "/tmp")
    kept = json.loads(run_in_subprocess(environment_of, b"", "x"))
    kept.pop("LC_CTYPE", None)  # Python's own, where the locale is C
    assert kept.keys() == {"PATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH"}
