"""Profiles in the pipeline: match records and scores."""

import hashlib
import json
import math
from typing import Any

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
    assert min(part for _, part in first["why"]) < 0  # words against the event count, too
    assert first["match_id"] == hashlib.sha256(text.encode()).hexdigest()[:32]


def test_the_score_is_the_dot_product_of_the_vectors() -> None:
    vector = EventVector.read(ROW["vectors"])
    wanted = dict(zip(TEXTS, vector.scores(small_encoder().posts(TEXTS)), strict=True))
    found = matches(learned_set(threshold=0.01))
    scores = {t: m["score"] for t, rows in found.items() for m in rows if m["event"] == "storm"}
    assert scores == {t: float(str(score)) for t, score in wanted.items() if score >= 0.01}
    assert len(scores) > 1


@pytest.mark.parametrize("text", TEXTS)
def test_contributions_add_up_to_the_score(text: str) -> None:
    enc, seeds = small_encoder(), learned_set()
    at = [seed.id for seed in seeds.seeds].index("profile|storm")
    parts = enc.explain(text, seeds.embeddings, at)
    score = enc.posts([text]).similarity(seeds.embeddings)[0, at]
    assert math.fsum(part for _, part in parts) == pytest.approx(score, abs=1e-3)
