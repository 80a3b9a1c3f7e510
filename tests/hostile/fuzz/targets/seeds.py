"""Records of the control topic: a seed, a profile, or refused with a reason."""

import json

from tests.hostile.costly_posts import marks
from tests.hostile.fuzz.target import Target
from tests.worker.event_profiles import profile
from tests.worker.small_encoder import ARTICLES, ControlTopic, small_encoder, value
from worker.metrics.web import seed_list
from worker.seeds.embedder import SeedEmbedder

TEXT = ARTICLES["flood"]
TOKENS = [
    *(b'"text":', b'"title":', b'"event":', b'"url":', b'"threshold":', b'"expires_at":'),
    *(b'"paused":', b'"vectors":', b'"seeds":', b'"model":', b'"promise":', b'"before":'),
    *(b"true", b"null", b"{}", b"[]", b"[", b"1e-45", b"1e999", b"NaN", b"-0", b"0.5"),
    *(b'"9999-12-31T23:59:59-01:00"', b'"0001-01-01T00:00:00+23:59"', b"\\ud800", b"\\u0000"),
    *(b"AAAA", b"/v//", b"fwAA", b"ZGVuc2U", b"c2xvdHM", b"tt", b"http://", b"#aB", b"9" * 400),
    *(b"storm flood", b"\xff", b"\x1b[2J", "\u0301\u0316".encode(), "🌪".encode(), "ж".encode()),
]


def opened() -> Target:
    """A seed of this value beside a good one, and a profile of this value of the good one."""
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
        seeds = SeedEmbedder(enc, 0.01, None).make(topic.snapshot())
        json.dumps(seed_list(seeds), ensure_ascii=False).encode()
        reasons = [each.reason for each in seeds.refused] + [each.reason for each in seeds.stale]
        assert all(reason.isprintable() for reason in reasons)
        in_force = any(each.id == "profile|storm" for each in seeds.seeds)
        has_seed = any(each.id == "seed" for each in seeds.seeds)
        assert in_force or any(each.id == "flood" for each in seeds.seeds)
        assert len(reasons) == (not in_force) + (not has_seed)
        return in_force or has_seed

    return Target([json.dumps(row).encode() for row in rows], TOKENS, feed, ms_per_kb=50)
