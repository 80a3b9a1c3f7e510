"""Damaged input without end: `python -m tests.hostile.fuzz --seconds 60 [--target posts]`.

A target reads what strangers write: pages of the web, and posts, through the whole pure pipeline.
Input n of a target is always the same: `--target posts --start 4711 --inputs 1` repeats one. An
input that ends the process, or holds it for HANGS_AFTER_S, is the last of the file that is named.
"""
# ruff: noqa: T201 - a command that prints a table

import argparse
import faulthandler
import json
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import trafilatura

import worker
from encoder.errors import InputError
from newsift.files.articles import WebPage, extract_in_process
from newsift.files.subprocesses import MAX_MEMORY_BYTES
from tests.faults.messages import POISON
from tests.hostile.costly_posts import SHAPES, marks, post
from tests.worker.fake_web_server import ARTICLE
from tests.worker.sample_messages import EXAMPLES
from tests.worker.small_encoder import Mail, seed_set, small_encoder
from worker.match.pipeline import Pipeline
from worker.match.records import Record
from worker.posts.read import Post, Reason, read_post

HANGS_AFTER_S = 60.0
MAX_FAILURES = 20
MAX_STEPS, MAX_RUN = 6, 2**16
EDGES = [
    (edge & (2 ** (8 * size) - 1)).to_bytes(size, order)
    for size in (1, 2, 4, 8)
    for edge in (0, 1, -1, 2 ** (8 * size - 1) - 1, 2 ** (8 * size - 1), 127, 128, 255)
    for order in ("big", "little")
]


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


# Pages first: they fork, which goes wrong once others have started threads.
TARGETS = {"pages": pages, "posts": posts}


def made(target: Target, name: str, number: int) -> bytes:
    """The input of this number: now and then one of the corpus as it is."""
    rng = random.Random(f"{name}:{number}")
    data = bytearray(rng.choice(target.corpus))
    for _ in range(rng.randint(0, MAX_STEPS)):
        damage(rng, data, target)
        del data[target.largest :]
    return bytes(data)


def damage(rng: random.Random, data: bytearray, target: Target) -> None:
    """Flip, cut, insert, overwrite, splice or repeat something somewhere."""
    at, token, other = rng.randint(0, len(data)), rng.choice(target.tokens), target.corpus
    span = slice(at, at + rng.choice([1, 2, 4, 16, 64, 1024, len(data)]))
    match rng.randrange(8):
        case 0 if data:
            data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
        case 1:
            del data[span]
        case 2:
            del data[at:]
        case 3 | 4:
            data[at:at] = token
        case 5:
            data[span] = rng.choice([token, rng.choice(EDGES)])
        case 6:
            data[at:at] = bytearray(rng.choice(other))[span]
        case _:
            run = (bytes(data[span]) if rng.random() < 0.5 else token) or b"\0"
            data[at:at] = run * min(2 ** rng.randint(1, 14), MAX_RUN // len(run) + 1)


def failure_of(target: Target, data: bytes) -> str:
    """What is wrong with the reading of an input; nothing if it is taken or refused in time."""
    try:
        cost = priced(target, data)
        if cost > target.ms_per_kb:  # a look at the clock may come at a bad time: the best of some
            cost = min(cost, *(priced(target, data) for _ in range(3)))
    except Exception as error:  # noqa: BLE001 - whatever comes out of it is what we look for
        return f"{type(error).__name__}: {error} ({traceback.extract_tb(error.__traceback__)[-1]})"
    limit = f"more than {target.ms_per_kb:g} ({len(data)} bytes)"
    return f"costs {cost:.1f} ms a KB, {limit}" if cost > target.ms_per_kb else ""


def priced(target: Target, data: bytes) -> float:
    """The milliseconds of CPU that an input costs for each KB."""
    began = time.process_time()
    target.feed(data)
    return (time.process_time() - began) * 1000 / max(1, len(data) / 1024)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.hostile.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="in all, shared by the targets")
    parser.add_argument("--target", action="append", choices=TARGETS, help="this one alone")
    parser.add_argument("--start", type=int, default=0, help="the number of the first input")
    parser.add_argument("--inputs", type=int, default=2**62, help="of each target, at the most")
    options = parser.parse_args()
    names, failures = options.target or list(TARGETS), list[str]()
    with tempfile.NamedTemporaryFile(prefix="newsift-fuzz-", delete=False) as file:
        print(f"the number of the last input is in {file.name}", flush=True)
        for name in names:
            target = TARGETS[name]()
            for data in target.corpus:
                target.feed(data)  # whatever is compiled or imported late is there by now
            ends_at, number = time.monotonic() + options.seconds / len(names), options.start
            before = len(failures)
            while time.monotonic() < ends_at and number < options.start + options.inputs:
                os.pwrite(file.fileno(), f"{name} {number:<12}\n".encode(), 0)
                faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
                if failure := failure_of(target, made(target, name, number)):
                    failures.append(f"{name} {number}: {failure[:500]}")
                number += 1
                if len(failures) - before >= MAX_FAILURES:
                    break
            faulthandler.cancel_dump_traceback_later()
            print(f"{name}: {number - options.start:,} inputs", flush=True)
    for failure in failures:
        print(f"FAILED {failure}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
