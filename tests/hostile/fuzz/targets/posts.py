"""Posts of every form, through the whole pure pipeline: a record each, or none."""

import json
from pathlib import Path

import worker
from tests.faults.messages import POISON
from tests.hostile.costly_posts import SHAPES, marks
from tests.hostile.fuzz.target import Target
from tests.hostile.target import post
from tests.worker.sample_messages import EXAMPLES
from tests.worker.small_encoder import Mail, seed_set, small_encoder
from worker.match.pipeline import Pipeline
from worker.match.records import Record
from worker.posts.read import Post, Reason, read_post

SAMPLES = Path(worker.__file__).parent / "samples" / "posts.jsonl"
TOKENS = [
    b'"id":', b'"text":', b'"data":', b'"includes":', b'"tweets":', b'"referenced_tweets":',
    b'"retweeted_status":', b'"full_text":', b'"commit":', b'"record":', b'"content":',
    b'"payload":', b'"reblog":', b'"created_at":', b'"timestamp_us":', b"null", b"true", b"{}",
    b"[", b"{", b"]", b"}", b",", b":", b'"', b"\\", b"\\u0000", b"\\ud800", b"1e999", b"-0",
    b"<p>", b"<br", b"<!--", b"&amp;", b"&#x110000;", b"http://", b"tt", b"@a.b", b"#aB", b"RT @",
    "\u0301\u0316".encode(), "🌪".encode(), "\u202e".encode(), "ﬃ".encode(), "ß".encode(),
    b"storm flood", b"9" * 400, b"\xff", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
]  # fmt: skip
HEADERS = {"reason", "detail", "source", "attempt", "schema"}
REASONS = {reason.value for reason in Reason}


def opened() -> Target:
    corpus = [example.value for example in EXAMPLES] + [value for _, value in POISON if value]
    corpus += SAMPLES.read_bytes().splitlines()[:50]
    corpus += [shape(2_000) for shape in SHAPES.values()] + [post("m", marks(40))]
    pipeline, seeds = Pipeline(small_encoder()), seed_set(threshold=0.05)

    def feed(value: bytes) -> bool:
        outcome = pipeline.run([Mail(value)], seeds, lambda: "now")
        rejected, passed_over = sum(outcome.rejected.values()), sum(outcome.passed_over.values())
        assert outcome.matched + rejected + passed_over <= 1
        assert len(outcome.records) == outcome.matched + rejected
        for record in outcome.records:
            check(record, value)
        return rejected == 0

    return Target([c for c in corpus if len(c) < 2**16], TOKENS, feed, ms_per_kb=25)


def check(record: Record, value: bytes) -> None:
    headers = {name: answer.decode() for name, answer in record.headers}
    if record.kind == "rejected":
        assert headers.keys() >= HEADERS
        assert headers["reason"] in REASONS
        assert headers["detail"].isprintable()
        assert record.value in (value, None)
        return
    row = json.loads(record.value or b"")
    read = read_post(value)
    assert isinstance(read, Post)
    assert (row["post"]["id"], row["post"]["text"]) == (read.id, read.text)
    assert all(match["score"] >= match["threshold"] for match in row["matches"])
    assert row["matched"] >= len(row["matches"]) > 0
