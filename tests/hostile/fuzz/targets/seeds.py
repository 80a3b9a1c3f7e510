"""Records of the control topic: a seed, or refused with a reason, and shown without a fault."""

import json

from tests.hostile.fuzz.target import Target
from tests.hostile.shapes import marks
from tests.worker.small import ARTICLES, ControlTopic, small_encoder
from worker.metrics.web import seeds_listed
from worker.seeds.embedder import SeedEmbedder

TOKENS = [
    *(b'"text":', b'"title":', b'"event":', b'"url":', b'"threshold":', b'"expires_at":'),
    *(b'"paused":', b"true", b"null", b"{}", b"[", b"1e-45", b"1e999", b"NaN", b"-0", b"0.5"),
    *(b'"9999-12-31T23:59:59-01:00"', b'"0001-01-01T00:00:00+23:59"', b"\\ud800", b"\\u0000"),
    *(b"storm flood", b"tt", b"http://", b"#aB", b"9" * 400, b"\xff", b"\x1b[2J"),
    *("\u0301\u0316".encode(), "🌪".encode(), "\u202e".encode(), "ж".encode()),
]


def opened() -> Target:
    more = {"title": "Storm", "event": "flood", "url": "https://a.example", "threshold": 0.5,
            "expires_at": "2026-01-31T12:00:00Z", "paused": False}  # fmt: skip
    rows = [{"text": text, **more} for text in ARTICLES.values()]
    rows += [{"text": marks(50)}, {"text": "t" * 5000 + "/"}]
    corpus = [json.dumps(row).encode() for row in rows]
    enc = small_encoder()

    def feed(value: bytes) -> bool:
        book = ControlTopic()
        book.put(b"seed", value)
        made = SeedEmbedder(enc, 0.01, None).make(book.snapshot())
        json.dumps(seeds_listed(made), ensure_ascii=False).encode()
        assert len(made) + len(made.refused) == 1
        assert all(seed.reason.isprintable() for seed in made.refused)
        return bool(len(made))

    return Target(corpus, TOKENS, feed, ms_per_kb=25)
