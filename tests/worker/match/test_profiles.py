"""Profiles in force, through the pipeline: what a record says, and that it adds up."""

import hashlib
import json
import math
from typing import Any

import numpy as np
import pytest

from tests.worker.learned import profile, profile_value
from tests.worker.small import ARTICLES, ControlTopic, mail, small_encoder, value
from worker.match.pipeline import Pipeline
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.profile import EventVector
from worker.seeds.set import SeedSet

SEEDS = {name: ARTICLES[name] for name in ("flood", "raid")}
TEXTS = ["storm flood in the city, the game of music", "police game fire", "a cat", "the game"]
ROW = profile("storm", SEEDS)


def learned_set(**changes: Any) -> SeedSet:
    book = ControlTopic()
    for name, text in ARTICLES.items():
        book.put(name.encode(), value(text=text, event="storm" if name in SEEDS else name))
    book.put(b"profile|storm", profile_value("storm", SEEDS, **changes))
    return SeedEmbedder(small_encoder(), 0.01, 0.05).make(book.snapshot())


def matches(seeds: SeedSet) -> dict[str, list[dict[str, Any]]]:
    """The matches of each text that has any."""
    messages = [mail(str(n), text, n) for n, text in enumerate(TEXTS)]
    outcome = Pipeline(small_encoder(), "plain").run(messages, seeds, lambda: "now")
    found = [json.loads(record.value or b"") for record in outcome.records]
    assert outcome.matched == len(found)
    assert all(row["seed_set"] == seeds.digest for row in found)
    return {row["post"]["text"]: row["matches"] for row in found}


def test_a_match_names_the_profile_and_its_version() -> None:
    version = hashlib.sha256(ROW["vectors"].encode()).hexdigest()[:12]
    found = matches(learned_set())
    events = [match for rows in found.values() for match in rows if match["event"] == "storm"]
    assert events
    assert {(m["seed_id"], m["seed_version"], m["title"]) for m in events} == {
        ("profile|storm", version, "")
    }
    named = ["plain", "0", TEXTS[0], "profile|storm", version, small_encoder().digest]
    text = json.dumps(named, ensure_ascii=False, separators=(",", ":"))
    (first,) = [match for match in found[TEXTS[0]] if match["event"] == "storm"]
    assert first["match_id"] == hashlib.sha256(text.encode()).hexdigest()[:32]


def test_its_score_is_the_product_of_the_vectors() -> None:
    vector = EventVector.read(ROW["vectors"])
    wanted = dict(zip(TEXTS, vector.scores(small_encoder().posts(TEXTS)), strict=True))
    found = matches(learned_set(threshold=0.01))
    scores = {t: m["score"] for t, rows in found.items() for m in rows if m["event"] == "storm"}
    assert scores == {t: float(str(score)) for t, score in wanted.items() if score >= 0.01}
    assert len(scores) > 1


@pytest.mark.parametrize("text", TEXTS)
def test_the_parts_of_the_words_add_up_to_its_score(text: str) -> None:
    enc, seeds = small_encoder(), learned_set()
    at = [seed.id for seed in seeds.seeds].index("profile|storm")
    parts = enc.explain(text, seeds.embeddings, at)
    score = enc.posts([text]).similarity(seeds.embeddings)[0, at]
    assert math.fsum(part for _, part in parts) == pytest.approx(score, abs=1e-3)


def test_a_record_s_why_holds_what_speaks_against_it() -> None:
    (found,) = [m for m in matches(learned_set())[TEXTS[0]] if m["event"] == "storm"]
    parts = small_encoder().explain(TEXTS[0], learned_set().embeddings, 2)
    told = sorted((p for p in parts if p[0]), key=lambda part: -abs(part[1]))[:8]
    assert dict(found["why"]) == pytest.approx(dict(told), abs=1e-4)
    assert min(part for _, part in found["why"]) < 0


def test_it_expires_with_its_last_seed_by_the_post_s_time() -> None:
    book = ControlTopic()
    for (name, text), end in zip(SEEDS.items(), ("2023-11-14", "2023-11-15"), strict=True):
        record = value(text=text, event="storm", expires_at=f"{end}T00:00:00Z")
        book.put(name.encode(), record)
    book.put(b"profile|storm", profile_value("storm", SEEDS))
    seeds = SeedEmbedder(small_encoder(), 0.01, 0.05).make(book.snapshot())
    ends = int(seeds.expiry[0])
    assert np.datetime64(ends, "ms") == np.datetime64("2023-11-15")
    pipeline = Pipeline(small_encoder(), "plain")
    for moment, matched in ((ends - 1, 1), (ends, 0)):
        message = mail("1", TEXTS[0])
        late = type(message)(message.value, timestamp=moment)
        assert pipeline.run([late], seeds, str).matched == matched
