"""`newsift seeds export` and `import`: what was published comes back to the byte."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka

RECORDS: dict[bytes, bytes] = {
    b"ferry": b'{"text": "A ferry burns.",  "mine": [1, {"a": null}]}',
    "dämme\u2028".encode(): '{"text": "Überflutung \\u00e9"}'.encode(),
    b"odd": b"{not json\r\n\x1b[31m",
    b"\xff\xfe": b"\xff raw \x00",
    b"empty": b"",
    b"later": b'{"text": "Second."}',
}


def publish(kafka: Kafka) -> None:
    kafka.send(SEEDS, b'{"text": "First."}', b"later")
    kafka.send(SEEDS, b'{"text": "Gone."}', b"gone")
    kafka.send(SEEDS, None, b"gone")
    for key, value in RECORDS.items():
        kafka.send(SEEDS, value, key)


def latest(kafka: Kafka) -> dict[Any, Any]:
    result = {record.key: record.value for record in kafka.records(SEEDS)}
    return {key: value for key, value in result.items() if value is not None}


@pytest.mark.parametrize("name", ["seeds.jsonl", "seeds.json.gz"])
def test_what_was_exported_and_lost_is_imported_as_it_was(
    newsift: Command, kafka: Kafka, tmp_path: Path, name: str
) -> None:
    publish(kafka)
    file = tmp_path / name
    done = newsift("seeds", "export", file)
    assert (done.code, done.out) == (0, "")
    assert "6 seeds exported" in done.err
    listed = newsift("seeds", "list").out
    for key in RECORDS:
        kafka.send(SEEDS, None, key)
    assert latest(kafka) == {}
    done = newsift("seeds", "import", file)
    assert done.code == 0
    assert "6 seeds imported" in done.err
    assert "the control topic was read to offset 15, " in done.err
    assert "refused, as in every worker: odd: value: bad JSON" in done.err
    assert latest(kafka) == RECORDS
    assert newsift("seeds", "list").out == listed
    again = newsift("seeds", "export", "-")
    rows = [json.loads(line) for line in again.out.strip().split("\n")]
    before = (
        [json.loads(line) for line in file.read_bytes().splitlines()]
        if name.endswith(".jsonl")
        else json.loads(gzip.decompress(file.read_bytes()))
    )
    assert [(r["key"], r["value"]) for r in rows] == [(r["key"], r["value"]) for r in before]


def test_standard_input_is_imported(newsift: Command, kafka: Kafka) -> None:
    line = json.dumps({"key": "a", "value": '{"text": "A"}'})
    assert newsift("seeds", "import", "-", stdin=line.encode()).code == 0
    assert latest(kafka) == {b"a": b'{"text": "A"}'}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "holds no record"),
        (b"{", "line 2: is not"),
        (b"[]", "line 2: is not"),
        (b'{"key": "b"}', "line 2: is not"),
        (b'{"key": 7, "value": "{}"}', "line 2: is not"),
        (b'{"key": {"base64": "%"}, "value": "{}"}', "line 2: is not"),
        (b'{"key": "\\ud800", "value": "{}"}', "line 2: is not"),
        (b'{"id": "b", "text": "B"}', "line 2: is not"),
        (b'{"key": "b", "value": null}', "line 2: has no value; newsift seeds remove"),
        (b'{"key": "a", "value": "{}"}', "line 2: has the key of an earlier row"),
        (b"[" * 100_000, "line 2: is not"),
    ],
)
def test_nothing_is_published_where_a_line_is_not_understood(
    newsift: Command, kafka: Kafka, tmp_path: Path, line: bytes, message: str
) -> None:
    file = tmp_path / "seeds.jsonl"
    first = b'{"key": "a", "value": "{}"}\n' if line else b"\n"
    file.write_bytes(first + line + b"\n")
    done = newsift("seeds", "import", file)
    assert (done.code, done.out, message in done.err) == (2, "", True), done.err
    assert len(done.err.splitlines()) == 1
    assert kafka.records(SEEDS) == []


def test_a_file_that_is_not_there(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    assert "cannot be read" in newsift("seeds", "import", tmp_path / "none").err
    assert newsift("seeds", "export", tmp_path).code == 2
    assert newsift("seeds", "export", tmp_path / "seeds.csv").code == 2
