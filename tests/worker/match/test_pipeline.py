"""One batch: what comes out for what goes in, in any batching, with any neighbours."""

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
    outcome = run(messages, limits=Limits(post_bytes=500))
    assert outcome.read == 6
    assert outcome.matched == 1
    assert sum(outcome.passed_over.values()) == 1
    assert outcome.passed_over["no_words"] == 1
    assert outcome.rejected == Counter(
        {Reason.BAD_JSON: 1, Reason.EMPTY_VALUE: 1, Reason.POST_BYTES: 1}
    )
    assert [r.source for r in outcome.records] == [0, 3, 4, 5]
    assert outcome.records[3].value is None
    assert outcome.events["flood"] == 1
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


def test_events_are_counted_by_name() -> None:
    outcome = run([mail("1", "storm flood river city")] * 3, seed_set(event="texas"))
    assert set(outcome.events) == {"texas"}
    assert outcome.matched == 3


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


def test_a_post_delivered_twice_has_the_same_match_ids() -> None:
    twice = [mail("1", "storm flood river city", 5), mail("1", "storm flood river city", 9)]
    edited = mail("1", "storm flood river city.", 11)
    first, again, new = (
        [match["match_id"] for match in json.loads(record.value or b"")["matches"]]
        for record in run([*twice, edited]).records
    )
    assert first == again
    assert not set(first) & set(new)


def test_a_text_that_repeats_is_embedded_and_explained_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enc = small_encoder()
    embedded: list[str] = []
    explained: list[object] = []
    embed, explain = enc.posts, enc.contributions

    def posts(texts: Sequence[str]) -> Embeddings:
        embedded.extend(texts)
        return embed(texts)

    def contributions(texts: Sequence[str], articles: Embeddings, pairs: Any) -> Any:
        explained.extend(pairs)
        return explain(texts, articles, pairs)

    monkeypatch.setattr(enc, "posts", posts)
    monkeypatch.setattr(enc, "contributions", contributions)
    texts = ["storm flood river city", "music", "storm flood river city", "storm flood river city"]
    messages = [mail(str(n), text) for n, text in enumerate(texts)]
    together = Pipeline(enc).run(messages, seed_set(), str)
    assert embedded == ["storm flood river city", "music"]
    assert len(explained) == len(set(explained)) > 0
    apart = [Pipeline(enc).run([each], seed_set(), str).records for each in messages]
    assert [each.value for each in together.records] == [
        each.value for records in apart for each in records
    ]


def test_an_empty_batch() -> None:
    outcome = run([])
    assert (outcome.read, outcome.records) == (0, [])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_any_batching_writes_the_same_records(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    messages = posts(rng, 30)
    for offset, poison in enumerate(POISON, 30):
        messages.insert(int(rng.integers(len(messages))), Mail(poison, offset=offset))
    whole = written(run(messages), messages)
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


def test_poison_hurts_nobody_else() -> None:
    good = posts(np.random.default_rng(1), 40)
    mixed = list(good)
    for i, poison in enumerate(POISON):
        mixed.insert(3 * i, Mail(poison, offset=100 + i))
    outcome = run(mixed)
    left = [r for r in written(outcome, mixed) if r[1] == "match"]
    assert left == written(run(good), good)
    assert len(left) > 3
    assert sum(outcome.rejected.values()) == len(POISON)
    for record in outcome.records:
        if record.kind == "rejected":
            assert record.value == mixed[record.source].value


def test_stages_are_timed_and_named_to_the_crash_points() -> None:
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


def test_one_post_that_needs_too_much_memory_is_a_dead_letter() -> None:
    messages = posts(np.random.default_rng(3), 37)
    messages[20] = mail("20", "storm flood storm flood", 20)
    outcome = run(messages, enc=Failing("storm flood storm flood"))
    others = messages[:20] + messages[21:]
    left = [r for r in written(outcome, messages) if r[1] == "match"]
    assert left == written(run(others), others)
    assert outcome.rejected == Counter({Reason.OUT_OF_MEMORY: 1})
    (letter,) = [record for record in outcome.records if record.kind == "rejected"]
    assert (letter.source, letter.value) == (20, messages[20].value)


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


@pytest.mark.parametrize("stage", ["decoded", "embedded", "compared", "written"])
def test_a_post_that_alone_raises_is_a_dead_letter(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = posts(np.random.default_rng(6), 9)
    messages.insert(4, mail("x", "storm flood storm flood", 99))
    others, enc = messages[:4] + messages[5:], Failing(error=ZeroDivisionError)
    wanted = written(run(others), others)
    fail_at(stage, enc, monkeypatch)
    outcome = run(messages, enc=enc)
    assert outcome.rejected == Counter({Reason.FAILED: 1})
    (letter,) = [record for record in outcome.records if record.kind == "rejected"]
    assert (letter.source, letter.value) == (4, messages[4].value)
    assert dict(letter.headers)["detail"].startswith(b"ZeroDivisionError as it was ")
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


def test_records_that_cannot_be_written_at_all_end_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.match.pipeline.to_match_record", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        run([mail("1", "storm flood river city")])


@pytest.mark.parametrize("timestamp", [None, -1])
def test_for_a_post_of_unknown_time_no_seed_has_expired(timestamp: int | None) -> None:
    message = Mail(value(id="1", text="storm flood river city"), timestamp=timestamp)
    seeds = replace(seed_set(), expiry=np.zeros(len(seed_set()), np.int64))
    (record,) = run([message], seeds).records
    assert json.loads(record.value or b"")["source"]["timestamp"] == -1
    assert run([replace(message, timestamp=0)], seeds).records == []
