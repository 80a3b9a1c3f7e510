"""A command at a terminal of its own, and a person who reads it and presses keys."""

import csv
import io
import json
import os
import pty
import select
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from msgspec import structs

from newsift.statistics.labels import Label, QueueName, read_label
from tests.newsift.cli.test_matches import record
from tests.worker.command_processes import BIN
from tests.worker.command_topics import LABELS, MATCHES, SEEDS, Kafka
from tests.worker.fake_command import Command
from tests.worker.judged_matches import begin, drawn, labels, match, stored_labels

PATIENCE_S = 60.0
CTRL_C = "\x03"


class AtTerminal:
    """The command while it runs; what it has shown so far is in `shown`."""

    def __init__(self, *args: str, **env: str) -> None:
        ours, theirs = pty.openpty()
        self._terminal, self.shown = ours, ""
        self._process = subprocess.Popen(
            [BIN / "newsift", *args], preexec_fn=partial(os.login_tty, theirs),
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100", **env},
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    def hears(self, wanted: str) -> str:
        ends = time.monotonic() + PATIENCE_S
        while wanted not in self.shown:
            assert time.monotonic() < ends, f"no {wanted!r} in {self.shown!r}"
            assert self._more(), f"it ended without {wanted!r}: {self.shown!r}"
        before, _, self.shown = self.shown.partition(wanted)
        return before

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def ends_by(self, key: str) -> int:
        """Press a key, again after each silent second, and tell the exit code.

        Python may lose a Ctrl-C between its showing a prompt and its reading the answer.
        """
        until = time.monotonic() + PATIENCE_S
        self.press(key)
        shown = self.shown
        while self._more():
            assert time.monotonic() < until, f"it goes on: {self.shown!r}"
            if self.shown == shown and "interrupted" not in shown:
                self.press(key)
            shown = self.shown
        return self._process.wait(PATIENCE_S)

    def _more(self) -> bool:
        if select.select([self._terminal], [], [], 1.0)[0]:
            try:
                self.shown += os.read(self._terminal, 2**16).decode("utf-8", "replace")
            except OSError:  # as Linux tells that nobody writes to it any more
                return False
        return True


KEYS = "[q] quit"


def test_matches_are_queued_in_the_order_of_their_hashes(kafka: Kafka) -> None:
    names = [str(n) for n in range(120)]
    kafka.fill(MATCHES, [match(n) for n in names])
    kafka.fill(MATCHES, [match("copy", group="0"), match("7", event="quake"), b"\xff{"])
    begin(kafka, "0")
    order = drawn(names)
    with AtTerminal("labels", "ask", "storm", "--by", "ann") as terminal:
        assert "`newsift events learn storm`" in terminal.hears("\n")  # a promise needs a profile
        message = terminal.hears(KEYS)
        assert (
            f"0.500 (threshold 0.250)  x  2026-03-01T10:00:00Z  https://x.example/{order[0]}"
            in message
        )
        assert f"  rain[0.40] {order[0]}" in message
        assert "  second line" in message
        assert "19 more labels" in message
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(message)
        for key, verdict in zip("ynuz", ("on", "off", "unsure", "undone"), strict=True):
            terminal.press("x" + key)
            terminal.hears(verdict)
            message = terminal.hears(KEYS)
        assert f"https://x.example/{order[2]}" in message
        assert terminal.ends_by("q") == 0
        assert "2 labels given" in terminal.shown
    a, b, c = order[:3]
    assert labels(kafka) == [(a, "on"), (b, "off"), (c, "unsure"), (c, None)]
    label = read_label(kafka.records(LABELS)[1].key, kafka.records(LABELS)[1].value)
    assert isinstance(label, Label)
    assert label.queue == QueueName("", "2026-03-01T10:00:00.000Z", (0.8, 0.9))
    assert (label.drawn, label.by, label.score, label.seed_set) == ("certify", "ann", 0.5, "ab")
    assert label.probability == 0.5 / len(order)
    with AtTerminal("labels", "ask", "storm", "--by", "ann") as terminal:
        assert f"https://x.example/{c}" in terminal.hears(KEYS)  # goes on where it ended
        assert terminal.ends_by(CTRL_C) == 130
        assert "Traceback" not in terminal.shown
    with AtTerminal("labels", "ask", "storm", "--by", "ben") as terminal:
        assert f"https://x.example/{a}" in terminal.hears(KEYS)  # the same posts, for κ


def test_a_note_is_written_shown_to_judges_and_deleted(newsift: Command, kafka: Kafka) -> None:
    kafka.fill(MATCHES, [match(str(n)) for n in range(20)])

    def notes() -> list[str]:
        rows = newsift("labels", "note", "storm", "--json").out.splitlines()
        return [json.loads(row)["note"] for row in rows]

    assert notes() == []
    assert newsift("labels", "note", "storm", "Jokes are off.\nRumours are on.").code == 0
    assert notes() == ["Jokes are off.\nRumours are on."]
    with AtTerminal("labels", "ask", "storm", "--by", "ann") as asked:
        assert "Rumours are on." in asked.hears(KEYS)
        assert asked.ends_by("q") == 0
    assert newsift("labels", "note", "storm", "").code == 0
    assert notes() == []
    assert newsift("labels", "list", "--json").out == ""
    assert newsift("labels", "note", "storm", "n" * 5_000).code == 2


def test_an_event_that_nobody_knows_is_refused(kafka: Kafka) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns.", "event": "ferry"}', b"s")
    for event, said, code in (("fery", "none of this name", 2), ("ferry", "no matches to ask", 0)):
        with AtTerminal("labels", "ask", event) as terminal:
            terminal.hears(said)
            assert terminal.ends_by("q") == code
            assert "labels given" not in terminal.shown


EVIL = '=1+1;"quoted"\n\x1b[31m, end'
IN_TABLES = EVIL.replace("\x1b", "")  # a table holds nothing that steers a terminal


def given(name: str = "1", **changes: Any) -> dict[str, Any]:
    post = {"id": name, "platform": "x", "text": f"rain {name}"}
    row = {"label": "on", "event": "storm", "post": post, "by": "ann"}
    return row | {"at": "2026-03-01T10:00:00Z", "drawn": "certify", "probability": 0.5} | changes


def write(file: Path, *rows: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


@pytest.mark.parametrize("name", ["l.jsonl", "l.csv", "l.tsv.gz", "l.json", "l.txt"])
def test_export_can_be_imported(newsift: Command, kafka: Kafka, tmp_path: Path, name: str) -> None:
    odd = {"id": "-5", "platform": "plain", "text": EVIL, "author": "=x", "lang": "en"}
    rows = [given("1", score=0.25, seed_set="ab", model="cd"), given("2", label="off"),
            given("3", post=odd, label="unsure")]  # fmt: skip
    done = newsift("labels", "import", write(tmp_path / "given.jsonl", *rows))
    assert (done.code, done.err) == (0, "newsift: 3 labels of event 'storm' imported\n")
    first = stored_labels(kafka)
    assert {record.headers[0] for record in kafka.records(LABELS)} == {
        ("schema", b"newsift.label/1")
    }
    file = tmp_path / name
    assert newsift("labels", "export", file).err == "newsift: 3 labels exported\n"
    assert newsift("labels", "import", file, "--yes").code == 0
    again = sorted(first, key=lambda label: label.key)
    if "csv" in name or "tsv" in name:
        again = [
            structs.replace(label, post=structs.replace(label.post, text=IN_TABLES))
            if label.post.id == "-5" else label for label in again
        ]  # fmt: skip
    assert stored_labels(kafka) == first + again
    assert {label.drawn for label in first} == {"given"}
    assert {label.probability for label in first} == {None}
    assert first[0].score == 0.25
    assert first[2].post.text == EVIL


def test_an_import_leaves_drawn_labels_that_say_the_same(
    newsift: Command, kafka: Kafka, tmp_path: Path
) -> None:
    for name in ("1", "2"):
        begin(kafka, name)
    file = tmp_path / "l.jsonl"
    assert newsift("labels", "export", file).code == 0
    file.write_text(file.read_text("utf-8").replace('"on"', '"off"', 1), "utf-8")
    assert newsift("labels", "import", file, "--yes").code == 0
    latest = {label.post.id: (label.label, label.drawn) for label in stored_labels(kafka)}
    assert sorted(latest.values()) == [("off", "given"), ("on", "certify")]


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
    result = {label.post.id: label for label in stored_labels(kafka)}
    assert {name: label.label for name, label in result.items()} == {"7": "on", "8": "off"}
    assert (result["7"].by, result["7"].score, result["7"].post.text) == ("ben", 0.5, IN_TABLES)


def test_people_are_counted_and_compared(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    own = [given("1"), given("2", label="off"), given("1", by="ben"), given("2", by="ben")]
    other = given("1", event="quake", label="unsure")
    assert newsift("labels", "import", write(tmp_path / "l", *own, other)).code == 0
    rows = [json.loads(line) for line in newsift("labels", "list", "--json").out.splitlines()]
    counts = {"off": 0, "unsure": 0, "certify": 0, "learn": 0, "count": 0, "any": 0, "given": 2}
    assert rows[1:] == [
        {"event": "storm", "by": "ann", "on": 1} | counts | {"off": 1},
        {"event": "storm", "by": "ben", "on": 2} | counts,
        {"event": "storm", "judge_a": "ann", "judge_b": "ben", "posts": 2, "agreement": 0.5,
         "kappa": 0.0},
    ]  # fmt: skip
    table = newsift("labels", "list", "--event", "storm").out
    assert "quake" not in table
    assert table.splitlines()[-1].split() == ["storm", "ann", "ben", "2", "0.50", "0.00"]


def test_hostile_records_are_refused_one_by_one(newsift: Command, kafka: Kafka) -> None:
    begin(kafka, "1")
    for key, value in ((b"\xff", b"\xff"), (b"k" * 9_999, b"{}"), (b"x\x1b[m", b"")):
        kafka.send(LABELS, value, key)
    done = newsift("labels", "list", "--json")
    assert (done.code, json.loads(done.out)["on"]) == (0, 1)
    assert done.err.count("newsift: refused: ") == 3
    assert "\x1b" not in done.err
