"""Labels are read as they were written, the latest stands, and hostile ones say why they do not."""

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.config import Limits
from worker.judge.labels import (
    KEY_BYTES,
    MOST_PAIRS,
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
def test_a_key_that_is_spelled_otherwise_is_refused(by: str) -> None:
    made, parts = label(by=by), ["fire", "x", "1", by]
    canonical = json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()
    assert read_label(canonical, made.value) == made
    escaped = canonical.replace(b"fire", b"f\\u0069re")
    for other in (json.dumps(parts).encode(), escaped, canonical + b" ", b" " + canonical, None):
        found = read_label(other, made.value)
        assert isinstance(found, RefusedLabel)
        assert found.reason.startswith("key: ")
    for wrong in (["fire", "x", "1"], ["fire", "x", "1", by, ""], ["fire", "x", 1, by], by):
        key = json.dumps(wrong, separators=(",", ":")).encode()
        assert isinstance(read_label(key, made.value), RefusedLabel)
    assert isinstance(read_label(made.key + b" " * KEY_BYTES, made.value), RefusedLabel)


@given(TEXTS, TEXTS)
def test_a_key_is_written_as_json_dumps_does(event: str, post: str) -> None:
    made = label(event=event, post=post)
    parts = [event, "x", post, "ann"]
    assert made.key == json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()


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
        (tree(queue={"nonce": "a" * 65, "until": AT}), "queue.nonce"),
        (tree(queue={"nonce": "a", "until": "now"}), "queue.until"),
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


def test_a_flood_of_one_pair_leaves_all_others_in_place() -> None:
    size, room = len(label().value) + OVERHEAD + 20, 100
    book = LabelBook(room=room * size)
    flood = [label(post=f"flood {n}", by="eve") for n in range(1_000)]
    before = [label(post=str(n)) for n in range(20)]
    after = [label(post=str(n), by="bob") for n in range(20)]
    for made in (*before, *flood, *after, *flood[::-1]):
        book.apply(made.key, made.value)
    by = [made.by for made in book.of("fire")]
    assert (by.count("ann"), by.count("bob")) == (20, 20)
    assert 50 < by.count("eve") < 70
    assert book.left_out > 1_800
    for made in flood:  # another event of the same person is another pair
        other = msgspec.structs.replace(made, event="flood")
        book.apply(other.key, other.value)
    by = [made.by for made in book.of("fire")]
    assert (by.count("ann"), by.count("bob")) == (20, 20)
    assert abs(by.count("eve") - len(book.of("flood"))) <= 2


def test_room_is_for_ten_thousand_pairs() -> None:
    book = LabelBook()
    for n in range(MOST_PAIRS + 5):
        made = label(by=f"judge {n}")
        book.apply(made.key, made.value)
    assert (len(book.of("fire")), book.left_out) == (MOST_PAIRS, 5)
    book.apply(label(by="judge 0").key, None)
    book.apply(label(by="late").key, label(by="late").value)
    assert len(book.of("fire")) == MOST_PAIRS


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ann", "bob", "eve"]), st.integers(0, 15), st.integers(0, 400),
            st.booleans(),
        ),
        max_size=150,
    ),
    st.integers(0, 30_000),
)  # fmt: skip
def test_no_pair_is_without_its_share_and_the_room_is_kept(
    records: list[tuple[str, int, int, bool]], room: int
) -> None:
    book, wanted, peak = LabelBook(room=room), dict[str, dict[bytes, int]](), Counter[str]()
    largest = 0
    for by, post, more, back in records:
        made = label(post=str(post), by=by, seed_set="s" * more)
        size = OVERHEAD + len(made.value)
        book.apply(made.key, None if back else made.value)
        own = wanted.setdefault(by, {})
        own.pop(made.key, None)
        if not back:
            own[made.key] = size
        peak[by], largest = max(peak[by], sum(own.values())), max(largest, size)
        held = {each.key: OVERHEAD + len(each.value) for each in book.copied().of("fire")}
        assert sum(held.values()) <= room
        assert all(wanted[json.loads(key)[3]][key] == size for key, size in held.items())
    for by, own in wanted.items():
        if peak[by] <= room / 3 - largest or not book.left_out:
            assert {each.key for each in book.of("fire") if each.by == by} == own.keys()


def test_a_label_that_is_given_anew_takes_its_room_once() -> None:
    book = LabelBook(room=2 * (len(label().value) + OVERHEAD))
    for said in ("on", "off", "unsure") * 100:
        book.apply(label(said).key, label(said).value)
    assert (book.of("fire")[0].label, book.left_out) == ("unsure", 0)


def test_a_post_is_on_the_event_where_all_say_so_without_a_doubt() -> None:
    said = [label("on"), label("on", by="bob"), label("on", "2"), label("off", "2", "bob"),
            label("unsure", "3")]  # fmt: skip
    assert verdicts(said) == {("x", "1"): True, ("x", "2"): False, ("x", "3"): False}
