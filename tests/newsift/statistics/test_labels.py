"""Labels are read as they were written, the latest stands, and hostile ones say why they do not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.statistics.labels import (
    KEY_BYTES,
    Label,
    RefusedLabel,
    read_label,
    unanimous_verdicts,
)
from worker.config.limits import Limits
from worker.posts.outcome import Post

AT = "2026-11-22T10:00:00Z"
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Mn", "Me", "Mc"]), max_size=40)


def label(said: str = "on", post: str = "1", by: str = "ann", **changed: Any) -> Label:
    given = {"event": "fire", "drawn": "certify", "probability": 0.5, **changed}
    return Label(said, post=Post(post, "x", "A ferry"), by=by, at=AT, **given)  # type: ignore[arg-type]


def tree(**changed: Any) -> bytes:
    """The value of a label, with some of its keys changed, or left out where None is given."""
    made = json.loads(label(score=0.25, seed_set="a" * 12, model="b" * 64).value) | changed
    return json.dumps({key: value for key, value in made.items() if value is not None}).encode()


def test_a_label_is_written_as_the_contract_has_it() -> None:
    made = label(score=0.25, seed_set="a" * 12, model="b" * 64)
    assert json.loads(made.key) == ["fire", "x", "1", "ann"]
    assert json.loads(made.value) == {
        "label": "on", "event": "fire", "post": {"id": "1", "platform": "x", "text": "A ferry"},
        "score": 0.25, "seed_set": "a" * 12, "model": "b" * 64, "drawn": "certify",
        "probability": 0.5, "by": "ann", "at": AT,
    }  # fmt: skip


@given(TEXTS, TEXTS.filter(bool), TEXTS.filter(lambda by: 0 < len(by.encode()) <= 240))
def test_what_was_written_is_read(text: str, name: str, by: str) -> None:
    post = Post(name, "mastodon", text, lang="de")
    made = Label("off", "flood", post, by, AT, "learn", score=-0.1)
    assert read_label(made.key, made.value) == made


def test_a_null_takes_back_and_unknown_keys_are_passed_over() -> None:
    assert read_label(label().key, None) is None
    assert isinstance(read_label(label().key, tree(more=[1])), Label)


@pytest.mark.parametrize("by", ["ann", "Jörg"])
def test_a_key_that_is_spelled_otherwise_is_refused(by: str) -> None:
    made, parts = label(by=by), ["fire", "x", "1", by]
    canonical = json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()
    assert read_label(canonical, made.value) == made
    escaped = canonical.replace(b"fire", b"f\\u0069re")
    for other in (json.dumps(parts).encode(), escaped, canonical + b" ", b" " + canonical, None):
        result = read_label(other, made.value)
        assert isinstance(result, RefusedLabel)
        assert result.reason.startswith("key: ")
    for wrong in (["fire", "x", "1"], ["fire", "x", "1", by, ""], ["fire", "x", 1, by], by):
        key = json.dumps(wrong, separators=(",", ":")).encode()
        assert isinstance(read_label(key, made.value), RefusedLabel)
    assert isinstance(read_label(made.key + b" " * KEY_BYTES, made.value), RefusedLabel)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (b"", "value"),
        (b"\xff", "value"),
        (b"[" * 100_000, "value"),
        (tree(label="maybe"), "label"),
        (tree(event="e" * 241), "event"),
        (tree(by=""), "by"),
        (tree(by="é" * 121), "by"),
        (tree(at="now"), "at"),
        (tree(at="2026-99-99T99:99:99Z"), "at"),
        (tree(drawn="chosen"), "drawn"),
        (tree(probability=0), "probability"),
        (tree(score=2), "score"),
        (tree().replace(b"0.25", b"1e999"), "score"),
        (tree().replace(b"0.25", b"NaN"), "value"),
        (tree(post={"id": "1", "platform": "x"}), "post"),
        (tree(post={"id": "1", "platform": "myspace", "text": ""}), "post.platform"),
        (tree(post={"id": "", "platform": "x", "text": ""}), "post.id"),
        (tree(post={"id": "1" * KEY_BYTES, "platform": "x", "text": ""}), "post.id"),
        (tree(post={"id": "1", "platform": "x", "text": "a" + "́" * 31}), "limits.marks"),
        (tree(queue={"nonce": "a" * 65, "until": AT}), "queue.nonce"),
        (tree(queue={"nonce": "a", "until": "now"}), "queue.until"),
        (tree(more="x" * 10_000), "limits.post_bytes"),
        (tree(post={"id": "2", "platform": "x", "text": ""}), "key"),
    ],
)  # fmt: skip
def test_what_is_no_label_is_refused_by_name(value: bytes, named: str) -> None:
    result = read_label(
        label().key, value, Limits(post_bytes=2**17 if value[:1] == b"[" else 9_999)
    )
    assert isinstance(result, RefusedLabel)
    assert result.reason.startswith(f"{named}: ")
    assert result.reason.isprintable()
    assert len(result.reason) < 600


@given(st.none() | st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_break_the_reader(key: bytes | None, value: bytes) -> None:
    assert isinstance(read_label(key, value), RefusedLabel)


def test_a_post_is_on_the_event_where_all_say_so_without_a_doubt() -> None:
    labels = [label("on"), label("on", by="bob"), label("on", "2"), label("off", "2", "bob"),
            label("unsure", "3")]  # fmt: skip
    assert unanimous_verdicts(labels) == {("x", "1"): True, ("x", "2"): False, ("x", "3"): False}
