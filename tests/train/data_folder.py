"""A small folder of labelled data, laid out as the real one, written for the tests."""

import gzip
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

THINGS = ("storm", "flood", "river", "music", "match", "police", "city", "fire")
EVENTS = ("event 0", "event 1", "event 5")  # one of each split: test, dev, train


def write(file: Path, rows: Iterable[Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    packed = gzip.compress(lines.encode(), mtime=0) if file.suffix == ".gz" else lines.encode()
    file.write_bytes(packed)
    return file


def read(file: Path) -> list[dict[str, Any]]:
    raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return [json.loads(line) for line in raw.splitlines()]


def pair_rows(count: int) -> list[dict[str, str]]:
    rows = []
    for i in range(count):
        a, b = THINGS[i % 8], THINGS[(i // 8 + i + 1) % 8]
        title = f"{a} and {b} number {i}"
        rows.append({"post": f"{a} {b} no {i}", "title": title, "article": f"{title}. {a} {b} {i}"})
    return rows


def folder(root: Path, pairs: int = 60) -> Path:
    """Pairs, a crisis with seeds, and a stream of everyday posts."""
    write(root / "pairs" / "small.jsonl.gz", pair_rows(pairs))
    labels = [("flood in the city", "on-topic"), ("a match with music", "off-topic")]
    posts = [{"event": "flood", "text": f"{text} {i}", "label": label}
             for i in range(20) for text, label in labels]  # fmt: skip
    write(root / "crisis" / "posts.jsonl.gz", posts)
    seeds = [{"event": "flood", "title": "flood", "article": "a flood of the river in the city"}]
    write(root / "crisis" / "seed_articles.jsonl.gz", seeds)
    everyday = ({"text": f"{THINGS[i % 8]} today {i}"} for i in range(400))
    write(root / "tweets" / "everyday.jsonl.gz", everyday)
    return root


def training_folder(root: Path) -> Path:
    """The same with articles, claims beside the pairs, and an event of each split."""
    folder(root, pairs=120)
    rng = random.Random(4)
    words = ["".join(rng.choices("abcdefghij", k=3)) for _ in range(400)]
    lines = [" ".join(rng.choices(words, k=10)).capitalize() for _ in range(11 * 40)]
    bodies = [". ".join(lines[i : i + 11]) for i in range(0, len(lines), 11)]
    write(
        root / "articles" / "some.jsonl.gz",
        ({"title": f"{THINGS[i % 8]} in the news {i}", "article": x} for i, x in enumerate(bodies)),
    )
    claims = [{"post": f"they say {x}", "title": x, "article": f"claim on {x}"} for x in THINGS]
    write(root / "pairs" / "checked.jsonl.gz", claims)
    pool = ({"title": f"pool {x}", "vclaim": f"a claim on a {x}"} for x in THINGS)
    write(root / "pairs" / "checked_claims.jsonl.gz", pool)
    kinds = ("on-topic", "off-topic")
    posts = [
        {"event": event, "text": f"{THINGS[j]} of {event} {i} {kind}", "label": kind}
        for event in EVENTS
        for j, kind in enumerate(kinds)
        for i in range(12)
    ]
    write(root / "crisis" / "events.jsonl", posts)
    seeds = ({"event": e, "title": f"report on {e}", "article": f"storm of {e}"} for e in EVENTS)
    write(root / "crisis" / "seed_articles.jsonl.gz", seeds)
    return root
