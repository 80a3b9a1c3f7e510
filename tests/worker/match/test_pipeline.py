"""One batch through the pipeline: matches, dead letters and counts."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.embeddings import Embeddings
from tests.worker.small import WORDS, Mail, mail, seed_set, small_encoder, value
from worker import crashpoint
from worker.config.limits import Limits
from worker.match.matcher import Matcher
from worker.match.pipeline import Outcome, Pipeline
from worker.match.records import to_match_record
from worker.posts.read import Reason, read_post
from worker.seeds.set import SeedSet

Written = tuple[int, str, bytes, bytes, str]

NOW = "2026-01-01T00:00:00.000Z"
POISON = [
    None, b"", b"{", b"\xff", b"[]", b'{"id": "1"}', b'{"id": "", "text": "storm"}',
    b'{"id": "1", "text": "\\ud800"}', b"[" * 9999, b'{"id": "1", "text": 7}',
]  # fmt: skip


def run(
    messages: Sequence[Mail], seeds: SeedSet | None = None, enc: Any = None, **settings: Any
) -> Outcome:
    pipeline = Pipeline(enc or small_encoder(), "plain", **settings)
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
    found = json.loads(record.value or b"")
    assert found["post"] == {"id": "1", "platform": "plain", "text": text}
    assert found["source"] == {
        "topic": "tweets", "partition": 3, "offset": 42, "timestamp": 1_700_000_000_000,
    }  # fmt: skip
    assert (found["seed_set"], found["model"]) == (seeds.digest, small_encoder().digest)
    assert found["processed_at"] == NOW
    scores = small_encoder().posts([text]).similarity(seeds.embeddings)[0]
    wanted = [k for k in np.argsort(-scores).tolist() if scores[k] >= 0.4]
    assert [m["seed_id"] for m in found["matches"]] == [seeds.seeds[k].id for k in wanted]
    assert found["matched"] == len(wanted) > 0
    for match, k in zip(found["matches"], wanted, strict=True):
        assert match["score"] == pytest.approx(float(scores[k]), abs=1e-6)
        assert match["threshold"] == 0.4
        explained = [p for p in small_encoder().explain(text, seeds.embeddings, k) if p[0]]
        wanted_why = sorted(explained, key=lambda part: -abs(part[1]))[:8]
        assert dict(match["why"]) == pytest.approx(dict(wanted_why), abs=1e-4)
        sizes = [abs(part) for _, part in match["why"]]
        assert sizes == sorted(sizes, reverse=True)


def test_counts_add_up() -> None:
    messages = [
        mail("1", "storm flood river city"),
        mail("2", "xyz of xyz"),
        mail("3", "https://t.co/abc"),
        Mail(b"{"),
        Mail(None),
        Mail(b'{"id": "9", "text": "' + b"a" * 999 + b'"}'),
    ]
    outcome = run(messages, seed_set(event="texas"), limits=Limits(post_bytes=500))
    assert outcome.read == 6
    assert outcome.matched == 1
    assert sum(outcome.passed_over.values()) == 1
    assert outcome.passed_over["no_words"] == 1
    assert outcome.rejected == Counter(
        {Reason.BAD_JSON: 1, Reason.EMPTY_VALUE: 1, Reason.POST_BYTES: 1}
    )
    assert [r.source for r in outcome.records] == [0, 3, 4, 5]
    assert outcome.records[3].value is None
    assert set(outcome.events) == {"texas"}
    assert len(outcome.best) == 2


def test_matches_beyond_the_limit_are_counted() -> None:
    seeds = seed_set(threshold=0.001)
    message = mail("1", "storm in the city music game police cat")
    whole = json.loads(run([message], seeds).records[0].value or b"")
    short = run([message], seeds, max_matches=2)
    cut = json.loads(short.records[0].value or b"")
    assert whole["matched"] == cut["matched"] == len(whole["matches"]) > 2
    assert cut["matches"] == whole["matches"][:2]
    assert sum(short.events.values()) == whole["matched"]
    scores = [match["score"] for match in whole["matches"]]
    assert scores == sorted(scores, reverse=True)


def test_why_can_be_turned_off() -> None:
    message = mail("1", "storm flood river city")
    for match in json.loads(run([message], why=False).records[0].value or b"")["matches"]:
        assert match["why"] == []


def test_without_seeds_posts_are_counted_and_nothing_else() -> None:
    messages = [mail("1", "storm"), Mail(b"{"), mail("2", "flood")]
    outcome = run(messages, SeedSet.empty(small_encoder()))
    assert (outcome.without_seeds, outcome.matched, len(outcome.records)) == (2, 0, 1)


def test_a_seed_expires_by_the_posts_timestamp() -> None:
    seeds = seed_set(expires_at="2026-01-01T00:00:00Z")
    end = 1_767_225_600_000
    body = value(id="1", text="storm flood river city")
    outcome = run([Mail(body, timestamp=end - 1), Mail(body, timestamp=end)], seeds)
    assert [record.source for record in outcome.records] == [0]


@settings(max_examples=30, deadline=None)
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


def test_stages_are_timed_and_pass_the_crash_points() -> None:
    ticks = count()
    seen: list[str] = []
    pipeline = Pipeline(small_encoder(), "plain", timer=lambda: float(next(ticks)))
    crashpoint.set_hook(seen.append)
    try:
        outcome = pipeline.run([mail("1", "storm")], seed_set(), lambda: NOW)
    finally:
        crashpoint.set_hook(None)
    assert seen == ["decoded", "encoded", "matched"]
    assert outcome.seconds == {"decode": 1.0, "encode": 1.0, "match": 1.0}


class Failing:
    """An encoder that fails at a text, or at too many, or gives it a bad vector."""

    def __init__(self, bad: str = "", most: int = 10**9, error: type[Exception] = MemoryError):
        self.real, self.bad, self.most, self.error = small_encoder(), bad, most, error
        self.digest, self.threads = self.real.digest, 2
        self.raised = 0

    def posts(self, texts: Sequence[str]) -> Embeddings:
        if len(texts) > self.most or self.bad in texts:
            self.raised += 1
            raise self.error("no memory")
        return self.real.posts(texts)

    def contributions(self, *args: Any) -> Any:
        return self.real.contributions(*args)


class OutOfMemoryError(RuntimeError):
    """What torch raises, by its name."""


@pytest.mark.parametrize("error", [MemoryError, OutOfMemoryError])
def test_out_of_memory_halves_the_batch(error: type[Exception]) -> None:
    messages, enc = posts(np.random.default_rng(2), 37), Failing("", 3, error)
    assert written(run(messages, enc=enc), messages) == written(run(messages), messages)
    assert enc.raised > 5


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_not_finite_is_a_dead_letter(odd: float) -> None:
    class Odd(Failing):
        def posts(self, texts: Sequence[str]) -> Embeddings:
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
    wanted = written(run(messages), messages)
    monkeypatch.setattr("worker.match.pipeline.Matcher", Tight)
    assert written(run(messages), messages) == wanted
    monkeypatch.setattr(Tight, "match", lambda *_: (_ for _ in ()).throw(MemoryError()))
    assert run(messages).rejected == Counter({Reason.OUT_OF_MEMORY: 30})


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
    messages.insert(4, mail("x", "storm flood storm flood", 99))
    others, enc = messages[:4] + messages[5:], Failing(error=error)
    wanted = written(run(others), others)
    fail_at(stage, enc, monkeypatch)
    outcome = run(messages, enc=enc)
    assert outcome.rejected == Counter({reason: 1})
    (letter,) = [record for record in outcome.records if record.kind == "rejected"]
    assert (letter.source, letter.value) == (4, messages[4].value)
    assert [row for row in written(outcome, messages) if row[1] == "match"] == wanted


def fail_at(stage: str, enc: Failing, monkeypatch: pytest.MonkeyPatch) -> None:
    unlucky, explain = "storm flood storm flood", enc.real.contributions
    if stage == "embedded":
        enc.bad = unlucky
    if stage == "decoded":
        read = read_post
        monkeypatch.setattr(
            "worker.match.pipeline.read_post",
            lambda v, *a: 1 // (unlucky.encode() not in v) and read(v, *a),
        )
    if stage == "written":
        write = to_match_record
        monkeypatch.setattr(
            "worker.match.pipeline.to_match_record",
            lambda i, m, p, *a: 1 // (unlucky != p.text) and write(i, m, p, *a),
        )
    if stage == "compared":
        monkeypatch.setattr(
            enc, "contributions", lambda t, *a: 1 // (unlucky not in t) and explain(t, *a)
        )


def test_an_error_that_no_post_alone_raises_ends_the_batch() -> None:
    class Always(Failing):
        def posts(self, texts: Sequence[str]) -> Embeddings:
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
