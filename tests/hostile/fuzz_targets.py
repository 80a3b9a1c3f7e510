"""What is fuzzed: a corpus, the words that matter in it, and what takes an input or refuses it."""

import json
import os
import resource
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import trafilatura
from aiokafka.record.memory_records import MemoryRecords

import worker
from encoder.errors import InputError
from newsift.broker.batches import HEADER, unpacked_batch
from newsift.broker.codes import RequestError
from newsift.files.articles import WebPage, extract_in_process
from newsift.files.subprocesses import MAX_MEMORY_BYTES
from tests.broker.record_batches import CODECS, PACK, batch, fixed, sealed, values
from tests.faults.messages import POISON
from tests.hostile.costly_posts import SHAPES, marks, post
from tests.worker.event_profiles import profile
from tests.worker.fake_web_server import ARTICLE
from tests.worker.sample_messages import EXAMPLES
from tests.worker.small_encoder import (
    ARTICLES,
    ControlTopic,
    Mail,
    seed_set,
    small_encoder,
    value,
)
from worker.match.pipeline import Pipeline
from worker.match.records import Record
from worker.metrics.web import seed_list
from worker.posts.read import Post, Reason, read_post
from worker.seeds.automatic import ThresholdRules
from worker.seeds.embedder import SeedEmbedder


@dataclass(frozen=True)
class Target:
    """One thing that reads what strangers write.

    `feed` tells whether the input was taken; it raises nothing, however wild the input: whatever
    does come out of it is a failure.
    """

    corpus: Sequence[bytes]
    tokens: Sequence[bytes]
    feed: Callable[[bytes], bool]
    ms_per_kb: float  # of CPU, at the most
    largest: int = 2**17


URL = "http://news.test/ferry"
CPU_S = 2
TAKEN, REFUSED = 0, 1
PAGE_TOKENS = [
    b"<p>", b"</p>", b"<div>", b"<article>", b"<script>", b"<!--", b"-->", b"<![CDATA[",
    b"<title>", b'<script type="application/ld+json">', b'{"articleBody": "', b'\\"a',
    b"</script>", b"<html>", b"&#x110000;", b"&amp;", b"&nbsp", b"<meta charset=", b"utf-16",
    b"<base href=", b"<a href='", b"<", b">", b'"', b"'", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf",
    b"\x1b[2J", b"<table>", b"<br", b"<svg><style>", b"<b>" * 50, "\u202e".encode(), b"x" * 1000,
    b"\n", b"<?xml", b"<!DOCTYPE",
]  # fmt: skip


def pages() -> Target:
    """Pages of the web: an article, or none, within bounds of time and memory."""
    assert trafilatura.__name__  # imported here, so that no child has to
    page = ARTICLE.encode()
    head, _, body = page.partition(b"<body>")
    corpus = [page, head, body, ARTICLE.encode("utf-16"), b"<p>cookies</p>"]

    def feed(data: bytes) -> bool:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os._exit(read_page(data, writer))
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            content = answer.read()
        _, code, _ = os.wait4(child, 0)
        if code != TAKEN:
            return False  # refused, or ended as it cost too much: both are reported so
        article = json.loads(content)
        assert article["text"].strip()
        assert article["title"].isprintable()
        assert article["url"] == URL
        return True

    return Target([data * n for data in corpus for n in (1, 3)], PAGE_TOKENS, feed, ms_per_kb=2500)


def read_page(data: bytes, writer: int) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (8 * MAX_MEMORY_BYTES, 8 * MAX_MEMORY_BYTES))
    try:
        result = asdict(extract_in_process(WebPage(URL, data, None)))
    except InputError as error:
        return REFUSED if str(error) else TAKEN
    except Exception:  # noqa: BLE001 - as in the command, where it takes too much memory or time to read
        return REFUSED
    with os.fdopen(writer, "wb") as answer:
        answer.write(json.dumps(result).encode())
    return TAKEN


SAMPLES = Path(worker.__file__).parent / "samples" / "posts.jsonl"
POST_TOKENS = [
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


def posts() -> Target:
    """Posts of every form, through the whole pure pipeline: a record each, or none."""
    corpus = [example.value for example in EXAMPLES] + [poison for _, poison in POISON if poison]
    corpus += SAMPLES.read_bytes().splitlines()[:50]
    corpus += [shape(2_000) for shape in SHAPES.values()] + [post("m", marks(40))]
    pipeline, seeds = Pipeline(small_encoder()), seed_set(threshold=0.05)

    def feed(data: bytes) -> bool:
        outcome = pipeline.run([Mail(data)], seeds, lambda: "now")
        rejected, passed_over = sum(outcome.rejected.values()), sum(outcome.passed_over.values())
        assert outcome.matched + rejected + passed_over <= 1
        assert len(outcome.records) == outcome.matched + rejected
        for record in outcome.records:
            check_record(record, data)
        return rejected == 0

    return Target([c for c in corpus if len(c) < 2**16], POST_TOKENS, feed, ms_per_kb=25)


def check_record(record: Record, data: bytes) -> None:
    headers = {name: answer.decode() for name, answer in record.headers}
    if record.kind == "rejected":
        assert headers.keys() >= HEADERS
        assert headers["reason"] in REASONS
        assert headers["detail"].isprintable()
        assert record.value in (data, None)
        return
    row = json.loads(record.value or b"")
    read = read_post(data)
    assert isinstance(read, Post)
    assert (row["post"]["id"], row["post"]["text"]) == (read.id, read.text)
    assert all(match["score"] >= match["threshold"] for match in row["matches"])
    assert row["matched"] >= len(row["matches"]) > 0


TEXT = ARTICLES["flood"]
SEED_TOKENS = [
    *(b'"text":', b'"title":', b'"event":', b'"url":', b'"threshold":', b'"expires_at":'),
    *(b'"paused":', b'"vectors":', b'"seeds":', b'"model":', b'"promise":', b'"before":'),
    *(b"true", b"null", b"{}", b"[]", b"[", b"1e-45", b"1e999", b"NaN", b"-0", b"0.5"),
    *(b'"9999-12-31T23:59:59-01:00"', b'"0001-01-01T00:00:00+23:59"', b"\\ud800", b"\\u0000"),
    *(b"AAAA", b"/v//", b"fwAA", b"ZGVuc2U", b"c2xvdHM", b"tt", b"http://", b"#aB", b"9" * 400),
    *(b"storm flood", b"\xff", b"\x1b[2J", "\u0301\u0316".encode(), "🌪".encode(), "ж".encode()),
]


def seeds() -> Target:
    """Control records: this value as a seed beside a good one, and as a profile of the good one."""
    more = {"title": "Storm", "event": "flood", "url": "https://a.example", "threshold": 0.5,
            "expires_at": "2026-01-31T12:00:00Z", "paused": False}  # fmt: skip
    rows = [{"text": text, **more} for text in ARTICLES.values()]
    rows += [{"text": marks(50)}, {"text": "t" * 5000 + "/"}]
    rows += [
        profile("storm", {"flood": TEXT}, threshold=0.4, promise={"precision": 0.8}),
        profile("storm", {"flood": TEXT}, before=[profile("storm", {"flood": TEXT})]),
    ]
    enc = small_encoder()

    def feed(data: bytes) -> bool:
        topic = ControlTopic()
        for key, content in (
            (b"flood", value(text=TEXT, event="storm")), (b"seed", data), (b"profile|storm", data),
        ):  # fmt: skip
            topic.put(key, content)
        seeds = SeedEmbedder(enc, ThresholdRules(0.01)).make(topic.snapshot())
        json.dumps(seed_list(seeds), ensure_ascii=False).encode()
        reasons = [each.reason for each in seeds.refused] + [each.reason for each in seeds.stale]
        assert all(reason.isprintable() for reason in reasons)
        in_force = any(each.id == "profile|storm" for each in seeds.seeds)
        has_seed = any(each.id == "seed" for each in seeds.seeds)
        assert in_force or any(each.id == "flood" for each in seeds.seeds)
        assert len(reasons) == (not in_force) + (not has_seed)
        return in_force or has_seed

    return Target([json.dumps(row).encode() for row in rows], SEED_TOKENS, feed, ms_per_kb=50)


RAW, FIXED, PACKED = range(3)
BATCH_TOKENS = [
    b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00" * 8, b"\x00", b"\x01",
    b"\xff\xff\xff\xff\x0f", b"\x80" * 9 + b"\x01", b"\x02", b"\x7f", b"\x10\x00\x00\x00\x01\x02a",
    b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"\x82SNAPPY\x00", b"\x00" * 300,
]  # fmt: skip


def batches() -> Target:
    """What the broker unpacks is what aiokafka reads.

    Three bytes at the start of an input say what is done with the rest: taken as it is, its
    checksum mended first, or packed by a codec as the body of a sound batch of so many records, so
    that all of it is reached.
    """
    whole = [batch(values(5), codec, base) for codec in CODECS.values() for base in (0, 2, 9)]
    corpus = [bytes([mode, 0, 0]) + data for data in whole for mode in (RAW, FIXED)]
    corpus += [bytes([RAW, 0, 0]) + whole[0] + whole[2], bytes([RAW, 0, 0]) + whole[3] + whole[8]]
    for count in (1, 9):
        body = batch([(b"key", b"value", [("name", b"more")])] * count)[HEADER.size :]
        corpus += [bytes([PACKED, codec, count]) + body for codec in PACK]

    def feed(data: bytes) -> bool:
        try:
            records = MemoryRecords(unpacked_batch(whole_batch(data)))
        except RequestError:
            return False
        while records.has_next():
            list(records.next_batch())
        return True

    return Target(corpus, BATCH_TOKENS, feed, ms_per_kb=40, largest=2**15)


def whole_batch(data: bytes) -> bytes:
    (mode, codec, count), rest = data[:3].ljust(3, b"\0"), data[3:]
    if mode % 3 == FIXED and len(rest) > HEADER.size:
        return fixed(rest)
    if mode % 3 == PACKED:
        return sealed(PACK[codec % len(PACK)](rest), codec % len(PACK), 0, count)
    return rest


# Pages first: they fork, which goes wrong once others have started threads.
TARGETS = {"pages": pages, "posts": posts, "seeds": seeds, "batches": batches}
