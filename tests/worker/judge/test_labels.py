"""Labels are read as they were written, the latest stands, and hostile ones say why they do not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.config import Limits
from worker.judge.labels import (
    KEY_BYTES,
    OVERHEAD,
    Label,
    LabelBook,
    RefusedLabel,
    read_label,
    verdicts,
)
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
def test_a_key_may_be_spaced_and_escaped_as_others_write_json(by: str) -> None:
    made = label(by=by)
    assert read_label(json.dumps(["fire", "x", "1", by]).encode(), made.value) == made
    for other in (["fire", "x", "1"], ["fire", "x", "1", by, ""], ["fire", "x", 1, by], by):
        assert isinstance(read_label(json.dumps(other).encode(), made.value), RefusedLabel)
    assert isinstance(read_label(made.key + b" " * KEY_BYTES, made.value), RefusedLabel)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (b"", "value"),
        (b"{", "value"),
        (b"[]", "value"),
        (b"\xff", "value"),
        (b"[" * 100_000, "value"),
        (b'{"label": "\\ud800"}', "value"),
        (tree(label=None), "value"),
        (tree(label="maybe"), "label"),
        (tree(label=True), "label"),
        (tree(event=""), "event"),
        (tree(event="e" * 241), "event"),
        (tree(by=""), "by"),
        (tree(by="é" * 121), "by"),
        (tree(at="now"), "at"),
        (tree(at=AT + " " * 5_000), "at"),
        (tree(at="2026-99-99T99:99:99Z"), "at"),
        (tree(drawn="chosen"), "drawn"),
        (tree(probability=0), "probability"),
        (tree(probability=1.5), "probability"),
        (tree(probability="half"), "probability"),
        (tree(probability=None), "probability"),
        (tree(score=2), "score"),
        (tree().replace(b"0.25", b"1e999"), "score"),
        (tree().replace(b"0.25", b"NaN"), "value"),
        (tree(post="1"), "post"),
        (tree(post={"id": "1", "platform": "x"}), "post"),
        (tree(post={"id": "1", "platform": "myspace", "text": ""}), "post.platform"),
        (tree(post={"id": "", "platform": "x", "text": ""}), "post.id"),
        (tree(post={"id": "1" * KEY_BYTES, "platform": "x", "text": ""}), "post.id"),
        (tree(post={"id": "1", "platform": "x", "text": "a" + "́" * 31}), "limits.marks"),
        (tree(queue="a"), "queue"),
        (tree(queue={"until": "now"}), "queue.until"),
        (tree(more="x" * 10_000), "limits.post_bytes"),
        (tree(post={"id": "2", "platform": "x", "text": ""}), "key"),
        (tree(by="bob"), "key"),
    ],
)  # fmt: skip
def test_what_is_no_label_is_refused_by_name(value: bytes, named: str) -> None:
    found = read_label(label().key, value, Limits(post_bytes=2**17 if value[:1] == b"[" else 9_999))
    assert isinstance(found, RefusedLabel)
    assert found.reason.startswith(f"{named}: ")
    assert found.reason.isprintable()
    assert len(found.reason) < 600


@given(st.none() | st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_break_the_reader(key: bytes | None, value: bytes) -> None:
    assert isinstance(read_label(key, value), RefusedLabel)


def test_the_latest_label_of_each_person_on_each_post_stands() -> None:
    book = LabelBook()
    for made in (label("on"), label("off", by="bob"), label("off", post="2"), label("unsure")):
        book.apply(made.key, made.value)
    book.apply(label(post="2").key, None)
    assert [(one.label, one.by) for one in book.of("fire")] == [("unsure", "ann"), ("off", "bob")]
    assert book.of("flood") == ()
    book.apply(label().key, b"{")
    assert [one.by for one in book.of("fire")] == ["bob"]
    assert [one.key for one in book.refused] == [label().key.decode()]


def test_a_long_key_is_held_by_its_digest_and_can_be_taken_back() -> None:
    book = LabelBook()
    book.apply(b"k" * 10**6, b"{")
    assert len(book.refused[0].key) == KEY_BYTES
    book.apply(b"k" * 10**6, None)
    assert book.refused == ()


def test_a_stranger_who_fills_the_topic_takes_no_more_room_than_there_is() -> None:
    honest, room = label(), 20_000
    book = LabelBook(room=room)
    book.apply(honest.key, honest.value)
    flood = [label(post=str(number), by="eve") for number in range(1_000)]
    for made in flood:
        book.apply(made.key, made.value)
        book.apply(made.key, b"{" * 9_999)  # what is refused takes little, and room like the others
    kept = len(book.of("fire")) + len(book.refused)
    assert honest in book.of("fire")
    assert 20 < kept < room / OVERHEAD
    assert book.left_out >= 1_000 - kept
    for made in flood:
        book.apply(made.key, None)
    book.apply(flood[-1].key, flood[-1].value)
    assert book.of("fire") == (honest, flood[-1])


def test_a_label_that_is_given_anew_takes_its_room_once() -> None:
    book = LabelBook(room=2 * (len(label().value) + OVERHEAD))
    for said in ("on", "off", "unsure") * 100:
        book.apply(label(said).key, label(said).value)
    assert (book.of("fire")[0].label, book.left_out) == ("unsure", 0)


def test_a_post_is_on_the_event_where_all_say_so_without_a_doubt() -> None:
    said = [label("on"), label("on", by="bob"), label("on", "2"), label("off", "2", "bob"),
            label("unsure", "3")]  # fmt: skip
    assert verdicts(said) == {("x", "1"): True, ("x", "2"): False, ("x", "3"): False}
