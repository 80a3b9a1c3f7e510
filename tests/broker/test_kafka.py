"""Apache Kafka's jars are exactly the pinned ones, or refused; none of this needs Java."""

import hashlib
from pathlib import Path

import pytest

from tests.broker import kafka
from tests.broker.conftest import ASKED, BROKERS
from tests.broker.kafka import KafkaUnavailable, check_jars, free_ports, pinned, tool


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    rows = []
    for name in ("a.jar", "b.jar"):
        (folder / name).write_bytes(name.encode())
        rows.append(f"{hashlib.sha512(name.encode()).hexdigest()}  {name}\n")
    pins = tmp_path / "jars.sha512"
    pins.write_text("".join(rows), "ascii")
    monkeypatch.setattr(kafka, "PINS", pins)
    return folder


def test_the_pinned_jars_pass(jars: Path) -> None:
    check_jars(jars)


def test_a_changed_a_missing_or_an_added_jar_is_refused(jars: Path) -> None:
    (jars / "a.jar").write_bytes(b"something else")
    (jars / "b.jar").unlink()
    (jars / "c.jar").write_bytes(b"c")
    with pytest.raises(KafkaUnavailable, match=r"\(a\.jar, b\.jar, c\.jar\)"):
        check_jars(jars)


def test_every_jar_that_is_pinned_has_a_whole_digest() -> None:
    found = pinned()
    assert "kafka_2.13-4.1.0.jar" in found
    assert all(len(digest) == 128 and int(digest, 16) for digest in found.values())


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(KafkaUnavailable, match="`mvn`"):
        tool("mvn")


def test_apache_kafka_is_tested_too() -> None:
    if not ASKED:
        pytest.skip("only the embedded broker: NEWSIFT_TEST_KAFKA=apache asks for Apache Kafka")
    assert "apache" in BROKERS


def test_free_ports_are_apart() -> None:
    assert len(set(free_ports(5))) == 5
