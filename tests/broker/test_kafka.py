import hashlib
from pathlib import Path

import pytest

from tests.broker import kafka
from tests.broker.kafka import KafkaUnavailable, check_jars, pinned


def test_a_changed_a_missing_or_an_added_jar_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(len(digest) == 128 and int(digest, 16) for digest in pinned().values())
    names = ("a.jar", "b.jar")
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    pins = "".join(f"{hashlib.sha512(name.encode()).hexdigest()}  {name}\n" for name in names)
    (tmp_path / "pins").write_text(pins, "ascii")
    monkeypatch.setattr(kafka, "PINS", tmp_path / "pins")
    check_jars(tmp_path)
    (tmp_path / "a.jar").write_bytes(b"something else")
    (tmp_path / "b.jar").unlink()
    (tmp_path / "c.jar").write_bytes(b"c")
    with pytest.raises(KafkaUnavailable, match=r"\(a\.jar, b\.jar, c\.jar\)"):
        check_jars(tmp_path)
