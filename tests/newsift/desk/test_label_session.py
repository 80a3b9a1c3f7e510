"""A judge's queue: questions in the order of the draw, once, through undo, outages and two tabs."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError
from newsift.desk.labelling import MOST, LabelSession
from newsift.files.rows import read_match
from newsift.operations.labels import AnswerLog, EventMatch, FrozenQueue, Publish
from newsift.statistics.labels import Label, Verdict, read_label
from newsift.statistics.queues import Candidate, CertifyQueue, LearnQueue
from tests.worker.judged import drawn, match
from worker.errors import BrokerError
from worker.posts.outcome import PostId

NAMES = [str(n) for n in range(80)]
VERDICTS = get_args(Verdict)


class Topic:
    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.away = False

    def publish(self, key: bytes, value: bytes | None) -> None:
        if self.away:
            raise BrokerError("the broker is away")
        self.records.append((key, value))

    @property
    def labels(self) -> dict[str, Label]:
        latest = {key: read_label(key, value) for key, value in self.records}
        return {result.post.id: result for result in latest.values() if isinstance(result, Label)}


def matches(names: list[str], **changes: Any) -> dict[PostId, EventMatch]:
    result = {}
    for name in names:
        record = read_match(match(name, 0.9 - 0.001 * int(name), **changes))
        assert record is not None
        best = record.matches[0]
        result["x", name] = EventMatch(Candidate(record.post, best.score, name), best, record)
    return result


def session(
    publish: Publish, kind: str = "certify", before: tuple[Label, ...] = ()
) -> LabelSession:
    result = matches(NAMES)
    candidates = [each.candidate for each in result.values()]
    queue = CertifyQueue(candidates) if kind == "certify" else LearnQueue(candidates, 0.87)
    return LabelSession(
        FrozenQueue(queue, result, None), AnswerLog("storm", "ann", result, before, publish)
    )


def current(queue: LabelSession) -> str:
    name: str = queue.state()["question"]["id"]
    return name


def answer(queue: LabelSession, verdict: Verdict = "on") -> str:
    name = current(queue)
    assert queue.answer(("x", name), verdict) is None
    return name


def test_questions_come_in_the_order_of_the_draw() -> None:
    topic = Topic()
    queue = session(topic.publish)
    best = sorted(drawn(NAMES), key=int)[:25]
    first = [name for name in drawn(NAMES) if name in best]
    assert [answer(queue) for _ in range(5)] == first[:5]
    assert [topic.labels[name].drawn for name in first[:5]] == ["certify"] * 5
    share = [0.5 * (n + 1) / 25 for n in range(5)]
    assert [topic.labels[name].probability for name in first[:5]] == pytest.approx(share)
    data = msgspec.json.encode(queue.state()).decode()
    assert "probability" not in data
    assert '"drawn"' not in data


@given(
    st.lists(st.sampled_from([*VERDICTS, "undo"]), max_size=60),
    st.sampled_from(["certify", "learn"]),
)
def test_the_topic_holds_the_answers_after_any_keys(pressed: list[Any], kind: str) -> None:
    topic = Topic()
    queue = session(topic.publish, kind)
    stack: list[tuple[str, Verdict]] = []
    for key in pressed:
        state = queue.state()
        if key == "undo" and stack:
            name, verdict = stack.pop()
            assert state["undo"]["label"] == verdict
            queue.undo(state["undo"]["step"])
            assert current(queue) == name
        elif key != "undo" and state["question"]:
            ahead = state["following"]["on" if key == "on" else "off"]
            stack.append((answer(queue, key), key))
            assert queue.state()["question"] == ahead
    assert {name: label.label for name, label in topic.labels.items()} == dict(stack)


def test_a_repeated_answer_is_published_once_and_a_different_one_is_refused() -> None:
    topic = Topic()
    queue = session(topic.publish)
    name = answer(queue, "on")
    assert queue.answer(("x", name), "on") == ""
    assert queue.answer(("x", name), "off") == "'on' was answered meanwhile"
    assert len(topic.records) == 1
    step = queue.state()["undo"]["step"]
    assert queue.undo(step)
    assert not queue.undo(step)  # the page did not hear that it was done
    assert [value is None for _, value in topic.records] == [False, True]
    later = drawn(NAMES)[9]
    assert "was taken back" in (queue.answer(("x", later), "on") or "")
    assert len(topic.records) == 2


def test_only_the_last_step_can_be_undone() -> None:
    topic = Topic()
    queue = session(topic.publish)
    answer(queue)
    step = queue.state()["undo"]["step"]
    answer(queue)
    with pytest.raises(InputError, match="answered since"):
        queue.undo(step)
    assert len(topic.labels) == 2


def test_an_answer_counts_once_the_broker_acknowledges_it() -> None:
    topic = Topic()
    queue = session(topic.publish)
    answer(queue)
    before = queue.state()
    topic.away = True
    with pytest.raises(BrokerError):
        queue.answer(("x", current(queue)), "on")
    with pytest.raises(BrokerError):
        queue.undo(before["undo"]["step"])
    assert queue.state() == before
    topic.away = False
    answer(queue)
    assert len(topic.labels) == 2


def test_tabs_that_answer_at_once_publish_one_label() -> None:
    topic = Topic()
    queue = session(topic.publish)
    name, barrier = current(queue), Barrier(8)

    def tab(n: int) -> str | None:
        barrier.wait()
        return queue.answer(("x", name), "on" if n % 2 else "off")

    with ThreadPoolExecutor(8) as hands:
        data = list(hands.map(tab, range(8)))
    assert len(topic.records) == 1
    assert data.count(None) == 1
    assert data.count("") == 3
    assert len(set(data)) == 3


def test_a_correction_keeps_its_draw_and_can_be_undone() -> None:
    topic = Topic()
    queue = session(topic.publish)
    name = answer(queue, "on")
    was = topic.labels[name]
    assert queue.correct(("x", name), "off")
    assert topic.labels[name] == msgspec.structs.replace(was, label="off", at=topic.labels[name].at)
    assert not queue.correct(("x", name), "off")
    assert len(topic.records) == 2
    queue.undo(queue.state()["undo"]["step"])
    assert topic.labels[name] == was
    with pytest.raises(InputError, match="you have not judged it"):
        queue.correct(("x", "nobody's"), "on")


def test_labels_from_elsewhere_do_not_replace_answers_of_the_session() -> None:
    topic, elsewhere = Topic(), Topic()
    queue, other = session(topic.publish, "learn"), session(elsewhere.publish, "learn")
    first, second, third = answer(other, "on"), answer(other, "on"), current(other)
    assert answer(queue, "off") == first
    queue.merge(elsewhere.labels.values())
    assert current(queue) == third
    assert queue.answer(("x", first), "on") == "'off' was answered meanwhile"
    assert queue.answer(("x", second), "on") == ""
    queue.undo(queue.state()["undo"]["step"])
    queue.merge(elsewhere.labels.values())  # what is followed comes late
    assert current(queue) == first
    queue.merge([msgspec.structs.replace(elsewhere.labels[first], by="ben")])
    assert current(queue) == first
    assert len(topic.records) == 2


def test_posts_for_the_page_are_bounded() -> None:
    name = drawn(NAMES)[0]
    result = matches([name], why=[["w" * 9, 0.1]] * 10_000)
    (only,) = result.values()
    huge = msgspec.structs.replace(only.candidate.post, text="\u202e<b>" * 100_000)
    queue = CertifyQueue([replace(only.candidate, post=huge)])
    frozen = FrozenQueue(queue, result, None)
    state = LabelSession(frozen, AnswerLog("e", "a", result, (), Topic().publish)).state()
    assert len(state["question"]["text"]) == MOST["text"]
    assert len(state["question"]["why"]) == 8
