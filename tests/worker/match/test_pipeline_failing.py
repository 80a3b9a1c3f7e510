"""A batch in which a post fails: it becomes a dead letter, its neighbours go on."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from encoder import Embeddings
from tests.worker.match.test_pipeline import posts, run, written
from tests.worker.small import Mail, mail, seed_set, small_encoder, value
from worker.match import pipeline
from worker.match.matcher import Matcher
from worker.match.records import to_match_record
from worker.posts.read import Reason, read_post


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
    monkeypatch.setattr(pipeline, "Matcher", Tight)
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
            pipeline, "read_post", lambda v, *a: 1 // (unlucky.encode() not in v) and read(v, *a)
        )
    if stage == "written":
        write = to_match_record
        monkeypatch.setattr(
            pipeline,
            "to_match_record",
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
    monkeypatch.setattr(pipeline, "to_match_record", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        run([mail("1", "storm flood river city")])


@pytest.mark.parametrize("timestamp", [None, -1])
def test_for_a_post_of_unknown_time_no_seed_has_expired(timestamp: int | None) -> None:
    message = Mail(value(id="1", text="storm flood river city"), timestamp=timestamp)
    seeds = replace(seed_set(), expiry=np.zeros(len(seed_set()), np.int64))
    (record,) = run([message], seeds).records
    assert json.loads(record.value or b"")["source"]["timestamp"] == -1
    assert run([replace(message, timestamp=0)], seeds).records == []
