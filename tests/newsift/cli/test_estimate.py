import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from newsift.operations.deletions import encode_deletion
from tests.newsift.cli.test_labels import KEYS, AtTerminal
from tests.worker.command_topics import LABELS, MATCHES, Kafka
from tests.worker.fake_command import Command
from tests.worker.fake_web_server import answering
from tests.worker.judged_matches import match, stored_labels
from worker.match.near import NearAnswer, NearMiss, Stratum
from worker.posts.outcome import Post
from worker.posts.times import DAY_MS

DAY = 1_772_000_000_000 // DAY_MS * DAY_MS
DAYS = ("2026-02-25", "2026-02-26", "2026-02-27")
MATCHED, NEAR = 120, 300


def match_on(number: int, **changes: Any) -> bytes:
    """A match of one of three days, by the seeds `ab`."""
    value = json.loads(match(str(number), 0.3 + number / 1_000))
    value["source"]["timestamp"] = DAY + number % 3 * DAY_MS
    return json.dumps(value | changes).encode()


def near_answer(seed_set: str = "ab", first: int = 0) -> bytes:
    kept = tuple(
        NearMiss(Post(f"near {n}", "x", f"hail {n}"), 0.2, DAY + n % 3 * DAY_MS)
        for n in range(first, first + 200)
    )
    hours = {DAY + day * DAY_MS: NEAR // 3 for day in range(3)}
    stratum = Stratum(NEAR, kept, tuple(range(200)), hours)
    answer = NearAnswer("storm", seed_set, {"s": (0.25, 0.2, 0.1)}, (stratum,), 9_999)
    return b"HTTP/1.1 200 OK\r\n\r\n" + msgspec.json.encode(answer)


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with answering(near_answer()) as address:
        monkeypatch.setenv("NEWSIFT_DESK__WORKERS", address)
        yield


def ask(*keys: str, by: str = "ann") -> str:
    """Answer questions at a terminal; the last question."""
    args = (
        "labels",
        "ask",
        "storm",
        "--queue",
        "count",
        "--labels",
        "40",
        "--since",
        "2026-01-01T00:00:00Z",
    )
    with AtTerminal(*args, "--by", by) as terminal:
        for key in keys:
            shown = terminal.hears(KEYS)
            terminal.press(key)
        if not keys or keys[-1] != "q":
            return terminal.hears("for the count are labelled")
        assert terminal.ends_by("q") == 0
        return shown


def test_posts_are_drawn_labelled_and_counted(
    newsift: Command, kafka: Kafka, tmp_path: Path
) -> None:
    kafka.fill(MATCHES, [match_on(n) for n in range(MATCHED)])
    other = [match_on(n, seed_set="old", processed_at="2026-02-01T10:00:00Z") for n in (500, 501)]
    kafka.fill(MATCHES, other)  # by other seeds: not in the frame
    ask("y", "n", "u", "q")
    first = stored_labels(kafka)
    assert [label.label for label in first] == ["on", "off", "unsure"]
    assert all(label.drawn == "count" and label.count and label.queue for label in first)
    assert {(label.seed_set, label.model) for label in first} == {("ab", "cd")}
    few = newsift("estimate", "storm", "--json")
    assert "left out: 2," in few.err
    total = json.loads(few.out.splitlines()[-1])
    assert (total["labels"], total["planned"], total["stopped"]) == (3, 40, True)
    assert (total["high"], total["missing"]) == (None, 27)
    assert 1 <= total["low"] <= total["count"] <= MATCHED + NEAR

    ask(*"ynn" * 12, "y")  # goes on where it ended
    labels = stored_labels(kafka)
    assert len({label.post_id for label in labels}) == len(labels) == 40
    frame = labels[0].count.frame if labels[0].count else None
    assert frame
    sizes = {name: posts for name, (posts, _) in frame.strata.items()}
    assert sizes == {"upper": 60, "lower": 60, "near": NEAR}
    for label in labels:
        assert label.count
        posts, planned = frame.strata[label.count.stratum]
        assert label.probability == planned / posts
        assert label.count.timestamp // DAY_MS - DAY // DAY_MS in range(3)

    done = newsift("estimate", "storm", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["period"] for row in rows] == [*DAYS, None]
    assert [(row["matches"], row["near"]) for row in rows] == [(40, 100)] * 3 + [(120, 300)]
    total = rows[-1]
    assert (total["labels"], total["stopped"], total["missing"]) == (40, False, 0)
    weights = [1 / (label.probability or 0) for label in labels]
    on = sum(w * {"on": 1, "unsure": 0.5, "off": 0}[label.label]
             for w, label in zip(weights, labels, strict=True))  # fmt: skip
    assert total["count"] == pytest.approx(on, abs=0.1)
    assert total["low"] <= total["count"] <= total["high"]
    table = newsift("estimate", "storm", "--by", "hour").out.splitlines()
    assert table[1].split()[:3] == [f"{DAYS[0]}T00:00Z", "40", "100"]
    assert len(table) == 1 + 49 + 1

    files = {name: tmp_path / f"counts.{name}" for name in ("csv", "svg", "png")}
    for file in files.values():
        assert newsift("estimate", "storm", "--by", "day", "--out", file).code == 0
    lines = list(csv.DictReader(io.StringIO(files["csv"].read_text("utf-8"))))
    assert [float(line["count"]) for line in lines] == [row["count"] for row in rows[:-1]]
    assert files["svg"].read_text("utf-8").count("<svg ") == 1
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert newsift("estimate", "storm", "--out", tmp_path / "counts.xls").code == 2

    again, labelled = (
        list(csv.DictReader(io.StringIO(newsift("estimate", "storm", "--csv", *more).out)))
        for more in (("--all",), ())
    )
    assert Counter(row["stratum"] for row in again) == sizes
    assert Counter(row["period"] for row in again) == dict.fromkeys(DAYS, (MATCHED + NEAR) // 3)
    assert labelled == [row for row in again if row["label"]]
    assert {row["post_id"]: row["label"] for row in labelled} == {
        label.post.id: label.label for label in labels
    }
    predictions = sorted(float(row["prediction"]) for row in again)
    scores = [0.3 + n / 1_000 for n in range(MATCHED)]
    assert predictions == pytest.approx([0] * NEAR + scores)
    weighted = sum(float(row["on"]) / float(row["probability"]) for row in labelled)
    assert weighted == pytest.approx(total["count"], abs=0.1)
    for predict in (lambda row: float(row["prediction"]), lambda row: row["stratum"] == "upper"):
        corrections = (
            (float(row["on"]) - predict(row)) / float(row["probability"]) for row in labelled
        )
        assert total["low"] <= sum(map(predict, again)) + sum(corrections) <= total["high"]

    ask("y", "q", by="ben")  # another judge is asked for the same posts
    assert stored_labels(kafka)[-1].post_id == labels[0].post_id
    kafka.fill(
        MATCHES,
        [match_on(n, seed_set="new", processed_at="2026-03-02T10:00:00Z") for n in (600, 601)],
    )
    ask("y", "q")  # other seeds begin another frame
    newest = stored_labels(kafka)[-1]
    assert newest.count
    assert newest.count.frame.strata == {"upper": (1, 1), "lower": (1, 1)}
    assert "1 of 2" in newsift("estimate", "storm").err


def test_an_event_without_labels_of_a_count_is_refused(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("not-made-yet", LABELS):
        monkeypatch.setenv("NEWSIFT_TOPICS__LABELS", topic)
        done = newsift("estimate", "storm")
        assert (done.code, done.out) == (2, "")
        assert "--queue count" in done.err
    assert newsift("estimate", "storm", "--csv", "--json").code == 2
    assert newsift("estimate", "storm", "--all").code == 2


def test_a_worker_with_newer_seeds_tells_nothing_of_this_frame(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.fill(MATCHES, [match_on(n) for n in range(MATCHED)])
    with answering(near_answer("new")) as address:
        monkeypatch.setenv("NEWSIFT_DESK__WORKERS", address)
        ask("y", "q")
    (label,) = stored_labels(kafka)
    assert label.count
    assert label.count.frame.strata.keys() == {"upper", "lower"}


def test_deleted_posts_are_asked_about_and_listed_without_their_content(
    newsift: Command, kafka: Kafka
) -> None:
    kafka.fill(MATCHES, [match_on(n) for n in range(MATCHED)])
    ask("y", "q")
    names = [*map(str, range(MATCHED)), *(f"near {n}" for n in range(200))]
    kafka.fill(MATCHES, [encode_deletion(("x", name), "2026-03-01T11:00:00Z") for name in names])
    for _ in range(3):
        question = ask("u", "q")
        assert "press u" in question
        assert not {"rain", "hail"} & set(question.split())
    first, *others = stored_labels(kafka)
    assert first.post.text
    assert [label.post.text for label in others] == ["", "", ""]
    rows = list(csv.DictReader(io.StringIO(newsift("estimate", "storm", "--csv").out)))
    assert [row["text"] for row in rows] == [""] * 4
    total = json.loads(newsift("estimate", "storm", "--json").out.splitlines()[-1])
    assert (total["matches"], total["labels"]) == (MATCHED, 4)
