"""Records of profiles: in force, stale or refused with a reason, and the seed serves otherwise."""

import json

from tests.hostile.fuzz.target import Target
from tests.worker.learned import profile
from tests.worker.small import ARTICLES, ControlTopic, small_encoder, value
from worker.metrics.web import seeds_listed
from worker.seeds.embedder import SeedEmbedder

TEXT = ARTICLES["flood"]
TOKENS = [
    *(b'"event":', b'"vectors":', b'"seeds":', b'"model":', b'"threshold":', b'"promise":'),
    *(b'"made":', b'"before":', b"null", b"{}", b"[]", b"1e999", b"NaN", b"AAAA", b"/v//", b"fwAA"),
    *(b"ZGVuc2U", b"c2xvdHM", b"storm", b"flood", b"\\ud800", b"9" * 400, b"\xff", b"\x1b[2J"),
]


def opened() -> Target:
    rows = [
        profile("storm", {"flood": TEXT}, threshold=0.4, promise={"precision": 0.8}),
        profile("storm", {"flood": TEXT}, before=[profile("storm", {"flood": TEXT})]),
    ]
    enc = small_encoder()

    def feed(given: bytes) -> bool:
        book = ControlTopic()
        book.put(b"flood", value(text=TEXT, event="storm"))
        book.put(b"profile|storm", given)
        made = SeedEmbedder(enc, 0.01, None).make(book.snapshot())
        json.dumps(seeds_listed(made), ensure_ascii=False).encode()
        in_force = made.seeds[0].id == "profile|storm"
        reasons = [each.reason for each in made.refused] + [each.reason for each in made.stale]
        assert (len(made), len(reasons)) == (1, 0 if in_force else 1)
        assert all(reason.isprintable() for reason in reasons)
        return in_force

    return Target([json.dumps(row).encode() for row in rows], TOKENS, feed, ms_per_kb=25)
