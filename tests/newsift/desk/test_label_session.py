"""A judge's queue: questions in the order of the draw, once, through undo, outages and two tabs."""

from concurrent.futures import ThreadPoolExecutor
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
from newsift.statistics.queues import Candidate, CertifyQueue, LearnQueue, Question, certifies_only
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
        """The latest label of each post."""
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
    """Answer the question; the id of its post."""
    name = current(queue)
    assert queue.answer(("x", name), verdict) is None
    return name


def test_questions_come_in_the_order_of_the_draw_which_the_page_does_not_see() -> None:
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
def test_whatever_is_pressed_the_topic_holds_the_answers(pressed: list[Any], kind: str) -> None:
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


def test_the_same_answer_twice_is_one_and_another_is_refused() -> None:
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


def test_an_older_step_is_not_taken_back_in_the_place_of_the_last() -> None:
    topic = Topic()
    queue = session(topic.publish)
    answer(queue)
    step = queue.state()["undo"]["step"]
    answer(queue)
    with pytest.raises(InputError, match="answered since"):
        queue.undo(step)
    assert len(topic.labels) == 2


def test_an_answer_counts_once_the_broker_has_it() -> None:
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


def test_a_correction_stays_drawn_as_it_was_and_can_be_taken_back() -> None:
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


def test_labels_from_elsewhere_are_merged_and_answers_here_count_more() -> None:
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


def test_learning_asks_of_the_other_half_only() -> None:
    topic = Topic()
    queue = session(topic.publish, "learn")
    names = [answer(queue) for _ in range(10)]
    assert not any(certifies_only(("x", name)) for name in names)
    assert {label.drawn for label in topic.labels.values()} == {"learn"}
    assert {label.probability for label in topic.labels.values()} == {None}


def test_posts_for_the_page_are_bounded() -> None:
    record = read_match(match("1", why=[["w" * 9, 0.1]] * 10_000))
    assert record is not None
    huge = msgspec.structs.replace(record.post, text="\u202e<b>" * 100_000, author="a" * 10**6)
    name = next(n for n in NAMES if certifies_only(("x", n)))
    huge = msgspec.structs.replace(huge, id=name)
    result = {("x", name): EventMatch(Candidate(huge, 0.5), record.matches[0], record)}

    class One(CertifyQueue):
        """Asks about the only match."""

        def next(self, text: Any) -> Question | None:
            return Question(self._order[0], "certify", 0.5)

    queue = One([each.candidate for each in result.values()])
    state = LabelSession(
        FrozenQueue(queue, result, None), AnswerLog("e", "a", result, (), Topic().publish)
    ).state()
    assert len(state["question"]["text"]) == MOST["text"]
    assert state["question"]["id"] == name
    assert len(state["question"]["why"]) == 8
    assert len(msgspec.json.encode(state)) < 2**20
