import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newsift.statistics.labels import (
    MAX_KEY_BYTES,
    MAX_LABELS_BYTES,
    MAX_NOTE_CHARS,
    RECORD_OVERHEAD_BYTES,
    Label,
    LabelReducer,
    LabelState,
    Note,
    RefusedLabel,
    read_label,
    unanimous_verdicts,
)
from tests.worker.small_encoder import Mail
from worker.config.limits import Limits
from worker.posts.outcome import Post

AT = "2026-11-22T10:00:00Z"
FRAME = {"since": AT, "cut": 0.5, "strata": {"story": [3, 1]}}
COUNT = {"stratum": "story", "posts": 3, "timestamp": 0, "frame": FRAME}
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Mn", "Me", "Mc"]), max_size=40)


def label(said: str = "on", post: str = "1", by: str = "ann", **changed: Any) -> Label:
    given = {"event": "fire", "drawn": "certify", "probability": 0.5, **changed}
    return Label(said, post=Post(post, "x", "A ferry"), by=by, at=AT, **given)  # type: ignore[arg-type]


def tree(**changed: Any) -> bytes:
    """The value of a label, with some of its keys changed, or left out where None is given."""
    made = json.loads(label(score=0.25, seed_set="a" * 12, model="b" * 64).value) | changed
    return json.dumps({key: value for key, value in made.items() if value is not None}).encode()


def test_a_label_is_written_as_in_the_contract() -> None:
    made = label(score=0.25, seed_set="a" * 12, model="b" * 64)
    assert json.loads(made.key) == ["fire", "x", "1", "ann"]
    assert json.loads(made.value) == {
        "label": "on", "event": "fire", "post": {"id": "1", "platform": "x", "text": "A ferry"},
        "score": 0.25, "seed_set": "a" * 12, "model": "b" * 64, "drawn": "certify",
        "probability": 0.5, "by": "ann", "at": AT,
    }  # fmt: skip


@given(TEXTS, TEXTS.filter(bool), TEXTS.filter(lambda by: 0 < len(by.encode()) <= 240))
def test_a_written_label_is_read(text: str, name: str, by: str) -> None:
    post = Post(name, "mastodon", text, lang="de")
    made = Label("off", "flood", post, by, AT, "learn", score=-0.1)
    assert read_label(made.key, made.value) == made


def test_a_null_deletes_and_unknown_keys_are_ignored() -> None:
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
    assert isinstance(read_label(made.key + b" " * MAX_KEY_BYTES, made.value), RefusedLabel)


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
        (tree(post={"id": "1" * MAX_KEY_BYTES, "platform": "x", "text": ""}), "post.id"),
        (tree(post={"id": "1", "platform": "x", "text": "a" + "́" * 31}), "limits.marks"),
        (tree(queue={"nonce": "a" * 65, "until": AT}), "queue.nonce"),
        (tree(queue={"nonce": "a", "until": "now"}), "queue.until"),
        (tree(count=COUNT | {"stratum": "near"}), "count.frame"),
        (tree(count=COUNT | {"frame": FRAME | {"strata": {"story": [3, 4]}}}), "count.frame"),
        (tree(count=COUNT | {"frame": FRAME | {"since": "now"}}), "count.frame.since"),
        (tree(more="x" * 10_000), "limits.post_bytes"),
        (tree(post={"id": "2", "platform": "x", "text": ""}), "key"),
    ],
)  # fmt: skip
def test_refuses_what_is_no_label_by_name(value: bytes, named: str) -> None:
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


NOTE = Note("jokes are off", "fire", "ann", AT)


def test_the_latest_note_of_an_event_counts_and_is_no_label() -> None:
    later = Note("jokes are on", "fire", "bob", AT)
    assert (NOTE.key, json.loads(NOTE.value)["note"]) == (b'["fire"]', "jokes are off")
    log: list[Record] = [(NOTE.key, NOTE.value), (label().key, label().value)]
    for record, note in (((later.key, later.value), later), ((NOTE.key, None), None)):
        state = state_of([*log, record])
        assert (state.note("fire"), state.note("flood")) == (note, None)
        assert (state.event_labels("fire"), state.refused) == ((label(),), ())
    assert dict(state_of(log).records)[NOTE.key] == NOTE


@pytest.mark.parametrize(
    "changes",
    [{"note": ""}, {"note": 1}, {"note": "n" * (MAX_NOTE_CHARS + 1)}, {"note": "a" + "\u0301" * 99},
     {"by": ""}, {"at": "noon"}, {"event": "flood"}],
)  # fmt: skip
def test_a_note_that_is_not_one_is_refused(changes: dict[str, Any]) -> None:
    value = json.dumps(json.loads(NOTE.value) | changes).encode()
    assert isinstance(read_label(NOTE.key, value), RefusedLabel)
    assert state_of([(NOTE.key, value)]).note("fire") is None


Record = tuple[bytes | None, bytes | None]
LONG = b"k" * 10**6
LABELS = [label(said, post, by) for said in ("on", "off") for post in "12" for by in ("ann", "bob")]
LABELS += [msgspec.structs.replace(each, event="flood") for each in LABELS[:3]]


class LabelTopic(LabelReducer):
    """A topic of labels in memory, and what it says."""

    def __init__(self, room: int = MAX_LABELS_BYTES) -> None:
        super().__init__(Limits(), room)
        self._end = 0

    def put(self, key: bytes | None, value: bytes | None) -> None:
        record: Any = Mail(value, "newsift-labels", offset=self._end, key=key)
        self.apply([record])
        self._end += 1


records = st.one_of(
    st.builds(lambda each, gone: (each.key, None if gone else each.value),
              st.sampled_from(LABELS), st.booleans()),
    st.tuples(st.sampled_from([None, b"", LONG, LABELS[0].key]), st.none() | st.binary(max_size=9)),
)  # fmt: skip
logs = st.lists(records, max_size=14)


def state_of(log: Sequence[Record]) -> LabelState:
    topic = LabelTopic()
    for record in log:
        topic.put(*record)
    return topic.snapshot()


@given(logs)
def test_the_state_is_that_of_a_slow_reading_of_the_latest_records(log: list[Record]) -> None:
    contents = [read_label(key, value) for key, value in dict(log).items()]
    labels = sorted((e for e in contents if isinstance(e, Label)), key=lambda each: each.key)
    state = state_of(log)
    by_event = {n: tuple(e for e in labels if e.event == n) for n in ("fire", "flood")}
    assert state.by_event == {name: own for name, own in by_event.items() if own}
    assert {name: state.event_labels(name) for name in by_event} == by_event
    assert list(state.refused) == sorted(e for e in contents if isinstance(e, RefusedLabel))


@given(logs, st.sets(st.integers(0, 13)))
def test_one_by_one_is_all_at_once_and_snapshots_stay(log: list[Record], looks: set[int]) -> None:
    at_once, topic, states = LabelReducer(), LabelTopic(), list[tuple[int, LabelState]]()
    mails: list[Any] = [Mail(value, key=key, offset=at) for at, (key, value) in enumerate(log)]
    at_once.apply(mails)
    for at, record in enumerate(log):
        topic.put(*record)
        if at in looks:
            states.append((at, topic.snapshot()))
    before = at_once.snapshot()
    at_once.apply(mails[:1])  # read before
    assert at_once.snapshot() is before == topic.snapshot()
    assert before.offset == topic.snapshot().offset == len(log)
    assert all(state == state_of(log[: at + 1]) for at, state in states)


def test_a_label_without_room_is_left_out() -> None:
    size = RECORD_OVERHEAD_BYTES + len(label(post="0").value)
    topic = LabelTopic(room=3 * size)
    for number in range(5):
        topic.put(label(post=str(number)).key, label(post=str(number)).value)
    state = topic.snapshot()
    assert [each.post.id for each in state.event_labels("fire")] == ["0", "1", "2"]
    assert state.left_out == 2
    topic.put(label(post="1").key, None)
    topic.put(label(post="5").key, label(post="5").value)
    topic.put(label("off", post="0").key, label("off", post="0").value[:-1] + b" " * size + b"}")
    state = topic.snapshot()
    assert [each.post.id for each in state.event_labels("fire")] == ["2", "5"]
    assert state.left_out == 3
