import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from newsift.statistics.labels import Label, read_label
from tests.newsift.cli.test_matches import record
from tests.worker.fake import Command
from tests.worker.kafka_side import LABELS, MATCHES, Kafka

HEADER = "event,label,by,at,platform,post_id,text"
EVIL = '=1+1;"quoted"\n\x1b[31m, end'


def given(name: str = "1", **changes: Any) -> dict[str, Any]:
    post = {"id": name, "platform": "x", "text": f"rain {name}"}
    row = {"label": "on", "event": "storm", "post": post, "by": "ann"}
    return row | {"at": "2026-03-01T10:00:00Z", "drawn": "certify", "probability": 0.5} | changes


def write(file: Path, *rows: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def stored(kafka: Kafka) -> list[Label]:
    result = [read_label(record.key, record.value) for record in kafka.records(LABELS)]
    assert all(isinstance(label, Label) for label in result)
    return [label for label in result if isinstance(label, Label)]


@pytest.mark.parametrize("name", ["l.jsonl", "l.csv", "l.tsv.gz", "l.json", "l.txt"])
def test_export_can_be_imported(newsift: Command, kafka: Kafka, tmp_path: Path, name: str) -> None:
    odd = {"id": "-5", "platform": "plain", "text": EVIL, "author": "=x", "lang": "en"}
    rows = [given("1", score=0.25, seed_set="ab", model="cd"), given("2", label="off"),
            given("3", post=odd, label="unsure")]  # fmt: skip
    done = newsift("labels", "import", write(tmp_path / "given.jsonl", *rows))
    assert (done.code, done.err) == (0, "newsift: 3 labels of event 'storm' imported\n")
    first = stored(kafka)
    assert {record.headers[0] for record in kafka.records(LABELS)} == {
        ("schema", b"newsift.label/1")
    }
    file = tmp_path / name
    assert newsift("labels", "export", file).err == "newsift: 3 labels exported\n"
    assert newsift("labels", "import", file, "--yes").code == 0
    assert stored(kafka) == first + sorted(first, key=lambda label: label.key)
    assert {label.drawn for label in first} == {"given"}
    assert {label.probability for label in first} == {None}
    assert first[0].score == 0.25
    assert first[2].post.text == EVIL


def test_imports_labels_in_a_matches_table(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    for name in ("7", "8", "9"):
        kafka.send(MATCHES, record(name, EVIL, storm=0.5))
    out = newsift("matches", "--no-follow", "--csv").out
    rows = list(csv.DictReader(io.StringIO(out, newline="")))
    message = {"7": "On", "8": " off ", "9": ""}
    file = tmp_path / "matches.csv"
    with file.open("w", newline="", encoding="utf-8") as table:
        writer = csv.DictWriter(table, [*rows[0], "label"])
        writer.writeheader()
        writer.writerows(row | {"label": message[row["post_id"]]} for row in rows)
    assert newsift("labels", "import", file, "--by", "ben").code == 0
    result = {label.post.id: label for label in stored(kafka)}
    assert {name: label.label for name, label in result.items()} == {"7": "on", "8": "off"}
    assert (result["7"].by, result["7"].score, result["7"].post.text) == ("ben", 0.5, EVIL)


LINE = json.dumps(given()).encode()
BAD = [
    ("a.jsonl", b"", "holds no label"),
    ("a.jsonl", b'{"label": "on"}\n', "line 1: value: Object missing required field"),
    ("a.jsonl", LINE + b"\n\xff", "line 2: is not UTF-8 at byte 1"),
    ("a.jsonl", LINE.replace(b'"on"', b'"maybe"'), "line 1: label: 'maybe' is not one of"),
    ("a.jsonl", LINE.replace(b"storm", b"e" * 241), "line 1: event: 241 bytes"),
    ("a.jsonl", LINE + b"\n" + LINE, "line 2: 'ann' judged this post"),
    ("a.csv", b"event,label,text\n", "line 1: has no column 'post_id'"),
    ("a.csv", f"{HEADER}\nstorm,on\n".encode(), "line 2: has 2 cells, the header 7"),
    ("a.csv", f'{HEADER}\nstorm,on,a,,y,"1\n'.encode(), "a quote that opens here is never closed"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD, ids=[row[2] for row in BAD])
def test_a_file_is_refused_before_anything_is_published(
    newsift: Command, kafka: Kafka, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    done = newsift("labels", "import", tmp_path / name, "--yes")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert message in done.err
    assert kafka.records(LABELS) == []


def test_people_are_counted_and_compared(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    ann = [given(str(n), label="on" if n < 6 else "off") for n in range(10)]
    ben = [given(str(n), by="ben", label="on" if n < 4 else "off") for n in range(10)]
    other = given("1", event="quake", label="unsure")
    assert newsift("labels", "import", write(tmp_path / "l", *ann, *ben, other)).code == 0
    rows = [json.loads(line) for line in newsift("labels", "list", "--json").out.splitlines()]
    drawn = {"certify": 0, "learn": 0}
    assert rows[:3] == [
        {"event": "quake", "by": "ann", "on": 0, "off": 0, "unsure": 1, **drawn, "given": 1},
        {"event": "storm", "by": "ann", "on": 6, "off": 4, "unsure": 0, **drawn, "given": 10},
        {"event": "storm", "by": "ben", "on": 4, "off": 6, "unsure": 0, **drawn, "given": 10},
    ]
    chance = 0.6 * 0.4 + 0.4 * 0.6
    assert rows[3].pop("kappa") == pytest.approx((0.8 - chance) / (1 - chance))
    pair = {"judge_a": "ann", "judge_b": "ben", "posts": 10, "agreement": 0.8}
    assert rows[3:] == [{"event": "storm"} | pair]
    table = newsift("labels", "list", "--event", "storm").out
    assert "quake" not in table
    assert table.splitlines()[-1].split() == ["storm", "ann", "ben", "10", "0.80", "0.62"]


def test_many_labels_and_hostile_records(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    rows = [given(str(n), event=f"e{n % 5_000}") for n in range(20_000)]
    assert newsift("labels", "import", write(tmp_path / "l.jsonl", *rows)).code == 0
    for key, value in ((b"\xff", b"\xff"), (b"k" * 9_999, b"{}"), (b"x\x1b[m", b"")):
        kafka.send(LABELS, value, key)
    done = newsift("labels", "list", "--json")
    assert (done.code, len(done.out.splitlines())) == (0, 5_000)
    assert sum(json.loads(line)["on"] for line in done.out.splitlines()) == 20_000
    assert done.err.count("newsift: refused: ") == 3
    assert "\x1b" not in done.err
