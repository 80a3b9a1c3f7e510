import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.embeddings import Embeddings
from tests.worker.event_profiles import profile, profile_value
from tests.worker.small_encoder import (
    ARTICLES,
    WORDS,
    ControlTopic,
    Mail,
    mail,
    seed_set,
    small_encoder,
    value,
)
from worker.assembly import build_pipeline
from worker.config import Config, PostsConfig
from worker.config.limits import DEFAULT_LIMITS, Limits
from worker.match import pipeline as pipeline_module
from worker.match.matcher import Matcher
from worker.match.pipeline import Outcome, Pipeline
from worker.match.records import RecordRules
from worker.posts import read as reading
from worker.posts.read import PostRules, Reason
from worker.seeds.automatic import ThresholdRules
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedSet
from worker.seeds.state import parse_control_state

Written = tuple[int, str, bytes, bytes, str]

NOW = "2026-01-01T00:00:00.000Z"
POISON = [
    None, b"", b"{", b"\xff", b"[]", b'{"id": "1"}', b'{"data": {"id": "", "text": "storm"}}',
    b'{"id": "1", "text": "\\ud800"}', b"[" * 9999, b'{"id": "1", "text": 7}',
]  # fmt: skip


def run(
    messages: Sequence[Mail], seeds: SeedSet | None = None, enc: Any = None, **settings: Any
) -> Outcome:
    rules = PostRules("plain", settings.pop("limits", DEFAULT_LIMITS))
    pipeline = Pipeline(enc or small_encoder(), rules, **settings)
    return pipeline.run(messages, seed_set() if seeds is None else seeds, lambda: NOW)


def written(outcome: Outcome, messages: Sequence[Mail]) -> list[Written]:
    """The records, each with where its message came from instead of its place in the batch."""
    return sorted(
        (messages[r.source].offset, r.kind, r.key or b"", r.value or b"", str(r.headers))
        for r in outcome.records
    )


def posts(rng: np.random.Generator, n: int) -> list[Mail]:
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 9))) for _ in range(n)]
    return [mail(str(i % 20), text, i) for i, text in enumerate(texts)]


def test_a_match_record_says_what_matched() -> None:
    seeds, text = seed_set(), "storm flood river in the city"
    message = Mail(value(id="1", text=text), "tweets", 3, 42, 1_700_000_000_000)
    (record,) = run([message], seeds).records
    assert record.key == b"1"
    result = json.loads(record.value or b"")
    assert result["post"] == {"id": "1", "platform": "plain", "text": text}
    assert result["source"] == {
        "topic": "tweets", "partition": 3, "offset": 42, "timestamp": 1_700_000_000_000,
    }  # fmt: skip
    assert (result["seed_set"], result["model"]) == (seeds.digest, small_encoder().digest)
    assert result["processed_at"] == NOW
    scores = small_encoder().posts([text]).similarity(seeds.embeddings)[0]
    expected = [k for k in np.argsort(-scores).tolist() if scores[k] >= 0.4]
    assert [m["seed_id"] for m in result["matches"]] == [seeds.seeds[k].id for k in expected]
    assert result["matched"] == len(expected) > 0
    for match, k in zip(result["matches"], expected, strict=True):
        assert match["score"] == pytest.approx(float(scores[k]), abs=1e-6)
        assert match["threshold"] == 0.4
        explained = [p for p in small_encoder().explain(text, seeds.embeddings, k) if p[0]]
        expected_why = sorted(explained, key=lambda part: -abs(part[1]))[:8]
        assert dict(match["why"]) == pytest.approx(dict(expected_why), abs=1e-4)
        sizes = [abs(part) for _, part in match["why"]]
        assert sizes == sorted(sizes, reverse=True)


def test_counts_add_up() -> None:
    messages = [
        mail("1", "storm flood river city"), mail("2", "xyz of xyz"), mail("3", "https://t.co/abc"),
        Mail(b"{"), Mail(None), mail("9", "a" * 999),
    ]  # fmt: skip
    outcome = run(messages, seed_set(event="texas"), limits=Limits(post_bytes=500))
    assert (outcome.read, outcome.matched) == (6, 1)
    assert +Counter(outcome.passed_over) == Counter(no_words=1)
    assert outcome.rejected == Counter(
        {Reason.BAD_JSON: 1, Reason.EMPTY_VALUE: 1, Reason.POST_BYTES: 1}
    )
    assert [r.source for r in outcome.records] == [0, 3, 4, 5]
    assert outcome.records[3].value is None
    assert set(outcome.events) == {"texas"}
    assert len(outcome.best) == 2


def test_matches_beyond_the_limit_are_counted_and_why_is_optional() -> None:
    seeds = seed_set(threshold=0.001)
    message = mail("1", "storm in the city music game police cat")
    whole = json.loads(run([message], seeds).records[0].value or b"")
    short = run([message], seeds, made=RecordRules(most=2))
    cut = json.loads(short.records[0].value or b"")
    assert whole["matched"] == cut["matched"] == len(whole["matches"]) > 2
    assert cut["matches"] == whole["matches"][:2]
    assert sum(short.events.values()) == whole["matched"]
    scores = [match["score"] for match in whole["matches"]]
    assert scores == sorted(scores, reverse=True)
    bare = json.loads(run([message], seeds, made=RecordRules(why=False)).records[0].value or b"")
    assert [match["why"] for match in bare["matches"]] == [[]] * len(scores)


@pytest.mark.parametrize("timestamp", [None, -1, -(2**63), 0, 2**63 - 1, 2**63])
def test_a_post_of_any_time_matches_a_seed_that_never_expires(timestamp: int | None) -> None:
    assert run([replace(mail("1", "storm flood river city"), timestamp=timestamp)]).matched == 1


def test_without_seeds_posts_are_counted_and_nothing_else() -> None:
    messages = [mail("1", "storm"), Mail(b"{"), mail("2", "flood")]
    nothing = SeedEmbedder(small_encoder(), ThresholdRules()).make(parse_control_state({}))
    outcome = run(messages, nothing)
    assert (outcome.without_seeds, outcome.matched, len(outcome.records)) == (2, 0, 1)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_any_batching_writes_the_same_records_whatever_the_neighbours(
    seed: int, sizes: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    messages = posts(rng, 30)
    for offset, poison in enumerate(POISON, 30):
        messages.insert(int(rng.integers(len(messages))), Mail(poison, offset=offset))
    outcome = run(messages)
    assert sum(outcome.rejected.values()) == len(POISON)
    whole = written(outcome, messages)
    shuffled = [messages[i] for i in rng.permutation(len(messages))]
    parts: list[Written] = []
    at = 0
    for size in sizes * len(shuffled):
        batch = shuffled[at : at + size]
        parts += written(run(batch), batch)
        at += size
        if not batch:
            break
    assert sorted(parts) == whole
    assert len(whole) >= len(POISON)


class Failing:
    """An encoder that fails at a text, or at too many, or gives it a bad vector."""

    has_star = False

    def __init__(self, bad: str = "", most: int = 10**9, error: type[Exception] = MemoryError):
        self.real, self.bad, self.most, self.error = small_encoder(), bad, most, error
        self.digest, self.threads = self.real.digest, 2
        self.raised = 0

    def posts(self, texts: Sequence[str], *, threads: int = 1) -> Embeddings:
        if len(texts) > self.most or self.bad in texts:
            self.raised += 1
            raise self.error("no memory")
        return self.real.posts(texts, threads=threads)

    def contributions(self, *args: Any) -> Any:
        return self.real.contributions(*args)


class OutOfMemoryError(RuntimeError):
    """What torch raises, by its name."""


@pytest.mark.parametrize("error", [MemoryError, OutOfMemoryError])
def test_out_of_memory_halves_the_batch(error: type[Exception]) -> None:
    messages, enc = posts(np.random.default_rng(2), 37), Failing("", 3, error)
    assert written(run(messages, enc=enc), messages) == written(run(messages), messages)
    assert enc.raised > 5


@pytest.mark.parametrize(("at_once", "threads"), [(1, 3), (2, 2), (8, 1)])
def test_batches_that_run_at_once_share_the_threads(at_once: int, threads: int) -> None:
    class Counting(Failing):
        def posts(self, texts: Sequence[str], *, threads: int = 0) -> Embeddings:
            counts.append(threads)
            return self.real.posts(texts)

    enc, counts = Counting(), list[int]()
    enc.threads = 3
    run([mail("1", "storm flood")], enc=enc, at_once=at_once)
    assert counts == [threads]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_not_finite_is_a_dead_letter(odd: float) -> None:
    class Odd(Failing):
        def posts(self, texts: Sequence[str], *, threads: int = 1) -> Embeddings:
            made = self.real.posts(texts)
            dense = made.dense.copy()
            dense[[text == "storm flood storm" for text in texts], 3] = odd
            return Embeddings(dense, made.lexical, made.mix, made.digest)

    messages = [mail("1", "storm flood river city"), mail("2", "storm flood storm")]
    outcome = run(messages, enc=Odd())
    assert [(r.source, r.kind) for r in outcome.records] == [(0, "match"), (1, "rejected")]
    assert outcome.rejected == Counter({Reason.NOT_FINITE: 1})


@pytest.mark.parametrize("limit", [1, 3])
def test_out_of_memory_while_comparing(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tight(Matcher):
        def match(self, posts: Embeddings, timestamps: Any) -> Any:
            if len(posts) > limit:
                raise MemoryError
            return super().match(posts, timestamps)

    messages = posts(np.random.default_rng(4), 30)
    expected = written(run(messages), messages)
    monkeypatch.setattr("worker.match.readers.Matcher", Tight)
    assert written(run(messages), messages) == expected
    monkeypatch.setattr(Tight, "match", lambda *_: (_ for _ in ()).throw(MemoryError()))
    assert run(messages).rejected == Counter({Reason.OUT_OF_MEMORY: 30})


UNLUCKY = "storm flood storm flood"


@pytest.mark.parametrize(
    ("stage", "error", "reason"),
    [
        *((stage, ZeroDivisionError, Reason.FAILED)
          for stage in ("decoded", "embedded", "compared", "written")),
        ("embedded", MemoryError, Reason.OUT_OF_MEMORY),
    ],
)  # fmt: skip
def test_a_post_that_alone_raises_is_a_dead_letter(
    stage: str, error: type[Exception], reason: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = posts(np.random.default_rng(6), 9)
    messages.insert(4, mail("x", UNLUCKY, 99))
    others, enc = messages[:4] + messages[5:], Failing(error=error)
    expected = written(run(others), others)
    if stage == "embedded":
        enc.bad = UNLUCKY
    else:
        holder, name = {
            "decoded": (reading, "_check_post"),
            "written": (pipeline_module, "to_match_record"),
            "compared": (enc, "contributions"),
        }[stage]
        real = getattr(holder, name)
        monkeypatch.setattr(holder, name, lambda *a: 1 // (UNLUCKY not in str(a)) and real(*a))
    outcome = run(messages, enc=enc)
    assert outcome.rejected == Counter({reason: 1})
    (letter,) = [record for record in outcome.records if record.kind == "rejected"]
    assert (letter.source, letter.value) == (4, messages[4].value)
    assert [row for row in written(outcome, messages) if row[1] == "match"] == expected


def test_an_error_that_no_post_alone_raises_ends_the_batch() -> None:
    class Always(Failing):
        def posts(self, texts: Sequence[str], *, threads: int = 1) -> Embeddings:
            raise self.error("whatever the text")

    with pytest.raises(ZeroDivisionError):
        run([mail("1", "storm"), mail("2", "flood")], enc=Always(error=ZeroDivisionError))
    with pytest.raises(ZeroDivisionError):
        run([mail("1", "storm"), mail("2", "flood")], enc=Failing("", 1, ZeroDivisionError))


@pytest.mark.parametrize("timestamp", [None, -1])
def test_for_a_post_of_unknown_time_no_seed_has_expired(timestamp: int | None) -> None:
    message = Mail(value(id="1", text="storm flood river city"), timestamp=timestamp)
    seeds = replace(seed_set(), expiry=np.zeros(len(seed_set()), np.int64))
    (record,) = run([message], seeds).records
    assert json.loads(record.value or b"")["source"]["timestamp"] == -1
    assert run([replace(message, timestamp=0)], seeds).records == []


SEEDS = {name: ARTICLES[name] for name in ("flood", "raid")}
TEXTS = ["storm flood in the city, the game of music", "police game fire", "a cat", "the game"]
ROW = profile("storm", SEEDS)


def learned_set() -> SeedSet:
    book = ControlTopic()
    for name, text in ARTICLES.items():
        book.put(name.encode(), value(text=text, event="storm" if name in SEEDS else name))
    book.put(b"profile|storm", profile_value("storm", SEEDS))
    return SeedEmbedder(small_encoder(), ThresholdRules(0.01, 0.05)).make(book.snapshot())


def test_a_match_names_the_profile_and_its_version() -> None:
    version = hashlib.sha256(ROW["vectors"].encode()).hexdigest()[:12]
    records = run([mail(str(n), text) for n, text in enumerate(TEXTS)], learned_set()).records
    rows = [match for r in records for match in json.loads(r.value or b"")["matches"]]
    events = [match for match in rows if match["event"] == "storm"]
    assert {(m["seed_id"], m["seed_version"], m["title"]) for m in events} == {
        ("profile|storm", version, "")
    }
    assert min(part for match in events for _, part in match["why"]) < 0  # words against it


def test_contributions_to_a_profile_add_up_to_the_score() -> None:
    enc, seeds = small_encoder(), learned_set()
    at = [seed.id for seed in seeds.seeds].index("profile|storm")
    scores = enc.posts(TEXTS).similarity(seeds.embeddings)[:, at]
    sums = [math.fsum(part for _, part in enc.explain(t, seeds.embeddings, at)) for t in TEXTS]
    assert sums == pytest.approx(scores.tolist(), abs=1e-3)


LANGS = ["en", "de", "en-GB", None, "und"]


def test_posts_in_other_languages_are_passed_over() -> None:
    text = "storm flood river in the city"
    messages = [mail(str(n), text, n, lang=lang) for n, lang in enumerate(LANGS)]
    pipeline, _ = build_pipeline(small_encoder(), Config(posts=PostsConfig(langs="en")))
    outcome = pipeline.run(messages, seed_set(), lambda: "now")
    result = [json.loads(record.value or b"")["post"]["id"] for record in outcome.records]
    assert result == ["0", "2", "3", "4"]
    assert outcome.passed_over == Counter(other_language=1)
    everything, _ = build_pipeline(small_encoder(), Config())
    assert everything.run(messages, seed_set(), lambda: "now").matched == len(LANGS)
