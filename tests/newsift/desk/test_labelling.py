from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace
from typing import Any, cast, get_args
from unittest.mock import ANY

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError, NewsiftError
from newsift.desk import labelling
from newsift.desk.labelling import LabelQueues, LabelSession, QueueKey
from newsift.desk.matches import MatchMirror
from newsift.desk.mirrors import TopicMirrors
from newsift.desk.period import FilePass, FilePeriod, StreamPeriod
from newsift.desk.post_fields import MAX_POST_CHARS
from newsift.desk.threads import DaemonExecutor
from newsift.operations.deletions import encode_deletion
from newsift.operations.labels import AnswerLog, FrozenQueue, LabelTopic
from newsift.operations.matches import MatchLog, MatchRow
from newsift.statistics.count_frame import frames_of
from newsift.statistics.labels import Label, LabelState, Verdict
from newsift.statistics.queues import CertifyQueue, LearnQueue, ScoredPost
from tests.broker.clients import until
from tests.worker.command_topics import LABELS, MATCHES, Kafka
from tests.worker.judged_matches import LabelRecords, drawn, match
from tests.worker.small_encoder import Mail
from worker.config.load import load_config
from worker.errors import BrokerError
from worker.kafka.reading import Offsets, TopicReader, connected
from worker.posts.outcome import Post, PostId
from worker.seeds.state import ControlState

ANN = QueueKey("storm", "ann", "certify")


class FakeMirrors:
    """They hold what the topics hold at each draw."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.version: str | None = ""
        self.labels = LabelState({})
        self.matches = MatchMirror(load_config(), StreamPeriod(), lambda: None)
        self.labels_follower = self

    def has_matches(self) -> bool:
        return True

    def wait_until(self, _end: Offsets) -> None:
        """Of the labels' follower."""
        with connected(load_config()) as cluster:
            self.catch_up(cluster)

    def clock(self) -> float:
        return self.seconds

    def catch_up(self, cluster: TopicReader) -> None:
        if cluster.exists(LABELS):
            self.labels = LabelTopic(cluster, load_config()).state()
        self.read_matches()

    def read_matches(self) -> None:
        with connected(load_config()) as cluster:
            for batch in cluster.read(MATCHES, self.matches.begin(cluster)):
                self.matches.take(batch)

    @property
    def control(self) -> ControlState:
        profile = SimpleNamespace(
            version=self.version, promise=None, made={}, record=dict, before=()
        )
        profiles: Any = {ANN.event: profile} if self.version else {}
        return ControlState({}, profiles, {}, {}, complete=self.version is not None)


@pytest.fixture
def at() -> FakeMirrors:
    return FakeMirrors()


@contextmanager
def judging(at: FakeMirrors) -> Iterator[LabelQueues]:
    mirrors = cast(TopicMirrors, at)
    created = LabelQueues(load_config(), mirrors, DaemonExecutor(4), at.matches.period, at.clock)
    created._nonce = ""  # the order is then that of the hashes
    try:
        yield created
    finally:
        created.labels.stop()


def drawn_queue(queues: LabelQueues, whose: QueueKey = ANN) -> LabelSession:
    until(lambda: queues.queue(whose))
    queue = queues.queue(whose)
    assert queue is not None
    return queue


def test_a_queue_is_drawn_once_for_all_tabs(kafka: Kafka, at: FakeMirrors) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    with judging(at) as queues:
        first = drawn_queue(queues)
        kafka.fill(MATCHES, [match(str(n)) for n in range(100, 200)])
        assert drawn_queue(queues) is first
        assert queues.session(ANN, first.token) is first
        assert (first.size, first.state()["goal"]) == (len(NAMES), (0.8, 0.9))
        ben = drawn_queue(queues, ANN._replace(by="ben"))
        assert (ben.size, ben.token != first.token) == (len(NAMES) + 100, True)
        assert queues.session(ANN, first.token) is first


def test_another_profile_begins_another_queue(kafka: Kafka, at: FakeMirrors) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    with judging(at) as queues:
        first = drawn_queue(queues)
        assert first.origin.replaced_because == ""
        at.version = "0123456789ab"
        with pytest.raises(InputError, match="has ended"):
            queues.session(ANN, first.token)
        second = drawn_queue(queues)
        assert "profile has changed" in second.origin.replaced_because
        assert second.token != first.token


def test_a_queue_is_drawn_once_all_posts_of_a_file_are_matched_again(
    kafka: Kafka, at: FakeMirrors
) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    period = FilePeriod()
    with connected(load_config()) as cluster:
        begin, end = cluster.beginnings(MATCHES), cluster.ends(MATCHES)
    first_pass = FilePass(version=1, control_offset=at.control.offset, begin={MATCHES: begin})
    period.latest = first_pass
    at.matches = MatchMirror(load_config(), period, lambda: None)
    queues = LabelQueues(load_config(), cast(TopicMirrors, at), DaemonExecutor(4), period)
    assert queues.queue(ANN) is None
    period.latest = msgspec.structs.replace(first_pass, done=True)
    first = drawn_queue(queues)
    assert first.size == len(NAMES)
    kafka.fill(MATCHES, [match(NAMES[0])])
    second_pass = msgspec.structs.replace(first_pass, version=2, done=True, begin={MATCHES: end})
    period.latest = second_pass
    with pytest.raises(InputError, match="has ended"):
        queues.session(ANN, first.token)
    assert drawn_queue(queues).size == 1


def test_half_a_day_without_an_answer_ends_a_queue(kafka: Kafka, at: FakeMirrors) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    with judging(at) as queues:
        first = drawn_queue(queues)
        at.seconds = labelling.MAX_IDLE_S
        assert drawn_queue(queues) is first
        at.seconds *= 2.1
        second = drawn_queue(queues)
        assert "half a day" in second.origin.replaced_because
        queues.discard(ANN, first.token)  # of a tab that shows the first
        assert drawn_queue(queues) is second
        queues.discard(ANN, second.token)
        assert drawn_queue(queues) is not second


def test_an_empty_queue_is_drawn_again_after_some_time(kafka: Kafka, at: FakeMirrors) -> None:
    with judging(at) as queues:
        assert drawn_queue(queues).empty
        kafka.fill(MATCHES, [match(n) for n in NAMES])
        for _ in range(4):  # a page that asks again and again
            assert drawn_queue(queues).empty
            at.seconds += labelling.EMPTY_QUEUE_S / 3
        assert not drawn_queue(queues).empty


def test_the_least_recently_used_queue_is_discarded(
    kafka: Kafka, at: FakeMirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelling, "MAX_QUEUED_POSTS", 2 * len(NAMES))
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    three = [ANN._replace(by=by) for by in ("a", "b", "c")]
    with judging(at) as queues:
        tokens = [drawn_queue(queues, whose).token for whose in three[:2]]
        queues.session(three[0], tokens[0])
        drawn_queue(queues, three[2])
        assert queues.session(three[0], tokens[0]).token == tokens[0]
        with pytest.raises(InputError, match="has ended"):
            queues.session(three[1], tokens[1])


def test_a_queue_without_a_goal_of_its_own_follows_that_of_the_newest_label(
    kafka: Kafka, at: FakeMirrors
) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    with judging(at) as queues:
        first = drawn_queue(queues)
        answer(drawn_queue(queues, ANN._replace(by="ben", goal=(0.9, 0.95))))
        until(lambda: at.labels.event_labels("storm"))
        second = drawn_queue(queues)
        assert (second is first, second.state()["goal"]) == (False, (0.9, 0.95))


def test_one_draw_for_a_count_goes_on_for_all_judges(kafka: Kafka, at: FakeMirrors) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    ann, ben = (QueueKey("storm", by, "count", labels=30) for by in ("ann", "ben"))
    with judging(at) as queues:
        first, other = drawn_queue(queues, ann), drawn_queue(queues, ben)
        assert not first.state()["is_fixed"]
        name = answer(first)
        assert first.state()["is_fixed"]
        until(lambda: at.labels.event_labels("storm"))
        with pytest.raises(InputError, match="has ended"):
            queues.session(ben, other.token)
        joined = drawn_queue(queues, ben._replace(labels=60))
        assert (current(joined), joined.state()["left"]) == (name, 30)
        assert drawn_queue(queues, ann) is first
        for left in range(29, 0, -1):
            assert first.state()["left"] == left
            answer(first)
        state = first.state()
        assert (state["question"], state["judged"], state["empty"]) == (None, 30, False)
        queues.discard(ann, first.token)
        again = drawn_queue(queues, ann)  # all are labelled: another draw, of which none is fixed
        assert (again.state()["is_fixed"], again.state()["left"]) == (False, 30)
        assert drawn_queue(queues, ann) is again
    (frame,) = frames_of(at.labels.event_labels("storm"))
    assert (frame.planned, len(frame.posts), frame.matches) == (30, 30, len(NAMES))


def test_a_draw_for_a_count_asks_about_a_deleted_post_without_its_content(
    kafka: Kafka, at: FakeMirrors
) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    whose = QueueKey("storm", "ann", "count")
    with judging(at) as queues:
        first = drawn_queue(queues, whose)
        answer(first)
        name = current(first)
        kafka.fill(MATCHES, [encode_deletion(("x", name), "2026-03-01T11:00:00Z")])
        at.read_matches()
        second = drawn_queue(queues, whose)
        assert (second is first, drawn_queue(queues, whose) is second) == (False, True)
        card = second.state()["question"]
        assert (card["id"], card["text"], card["is_deleted"]) == (name, "", True)


def test_an_unreachable_broker_is_reported(
    at: FakeMirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKA", "127.0.0.1:1")
    with judging(at) as queues:
        for _ in range(2):
            with pytest.raises(NewsiftError, match="broker"):
                drawn_queue(queues)
        with pytest.raises(NewsiftError, match="broker"):
            queues.labels.publish(b"key", b"value")


def test_few_draws_run_at_once(at: FakeMirrors, kafka: Kafka) -> None:
    go = Event()
    at.catch_up = lambda _cluster: go.wait(20)  # type: ignore[assignment]
    keys = [ANN._replace(by=by) for by in ("a", "b", "c")]
    with judging(at) as queues:
        assert [queues.queue(key) for key in keys] == [None] * 3
        assert len(queues._draws) == labelling.MAX_DRAWS
        go.set()
        assert all(drawn_queue(queues, key).empty for key in keys)


NAMES = [str(n) for n in range(80)]
FIRST = [name for name in drawn(NAMES) if name in sorted(drawn(NAMES), key=int)[:40]]
VERDICTS = get_args(Verdict)


class Topic(LabelRecords):
    @property
    def labels(self) -> dict[str, Label]:
        return {label.post.id: label for label in self.event_labels("storm")}


def matches(names: list[str], **changes: Any) -> dict[PostId, MatchRow]:
    log = MatchLog(2**27)
    values = [match(name, 0.9 - 0.001 * int(name), **changes) for name in names]
    log.apply([cast(Any, Mail(value)) for value in values], 0)
    return {row.post_id: row for row in log.draw_rows("storm")}


def session(topic: Topic, kind: str = "certify") -> LabelSession:
    result = matches(NAMES)
    candidates = [*result.values()]
    queue = CertifyQueue(candidates) if kind == "certify" else LearnQueue(candidates, 0.87)
    frozen = FrozenQueue(queue, result)
    return LabelSession(frozen, AnswerLog("storm", "ann", frozen, topic))


def current(queue: LabelSession) -> str:
    name: str = queue.state()["question"]["id"]
    return name


def answer(queue: LabelSession, verdict: Verdict = "on") -> str:
    name = current(queue)
    assert queue.answer(("x", name), verdict) == (True, "", None)
    return name


def test_the_page_is_not_told_how_a_post_was_drawn() -> None:
    queue = session(Topic())
    assert [answer(queue) for _ in range(5)] == FIRST[:5]
    data = msgspec.json.encode(queue.state()).decode()
    assert "probability" not in data
    assert '"drawn"' not in data


@given(
    st.lists(st.sampled_from([*VERDICTS, "undo"]), max_size=60),
    st.sampled_from(["certify", "learn"]),
)
def test_the_topic_holds_the_answers_after_any_keys(pressed: list[Any], kind: str) -> None:
    topic = Topic()
    queue = session(topic, kind)
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
    queue = session(topic)
    name = answer(queue, "on")
    assert queue.answer(("x", name), "on") == (False, "", None)
    assert queue.answer(("x", name), "off") == (False, ANY, "on")
    assert len(topic.records) == 1
    step = queue.state()["undo"]["step"]
    assert queue.undo(step)
    assert not queue.undo(step)  # the page did not hear that it was done
    assert [value is None for _, value in topic.records] == [False, True]
    later = drawn(NAMES)[9]
    outcome = queue.answer(("x", later), "on")
    assert outcome.problem
    assert outcome.other is None
    assert len(topic.records) == 2


def test_an_answer_that_has_no_room_can_be_undone_like_any_other() -> None:
    topic = Topic()
    queue = session(topic)
    first = answer(queue)
    topic.full = True
    with pytest.raises(InputError, match="without room"):
        queue.answer(("x", current(queue)), "off")
    for label in ("off", "on"):
        undo = queue.state()["undo"]
        assert undo["label"] == label
        assert queue.undo(undo["step"])
    assert (topic.labels, current(queue), queue.state()["undo"]) == ({}, first, None)


def test_only_the_last_step_can_be_undone() -> None:
    topic = Topic()
    queue = session(topic)
    answer(queue)
    step = queue.state()["undo"]["step"]
    answer(queue)
    with pytest.raises(InputError, match="answered since"):
        queue.undo(step)
    assert len(topic.labels) == 2


def test_an_answer_counts_once_the_broker_acknowledges_it() -> None:
    topic = Topic()
    queue = session(topic)
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


def test_a_correction_keeps_its_draw_and_can_be_undone() -> None:
    topic = Topic()
    queue = session(topic)
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


def test_labels_from_elsewhere_count_like_answers() -> None:
    """As of another queue, the list of matches, or a command: the topic alone says what counts."""
    topic = Topic()
    queue, other = session(topic, "learn"), session(topic, "learn")
    first, second = answer(other, "on"), answer(queue, "off")
    assert first != second
    assert current(queue) == current(other)
    assert queue.answer(("x", first), "off") == (False, ANY, "on")
    assert queue.correct(("x", first), "off")
    assert topic.labels[first].label == "off"
    queue.undo(queue.state()["undo"]["step"])
    assert topic.labels[first].label == "on"
    asked = current(queue)
    of_ben = msgspec.structs.replace(topic.labels[first], by="ben", post=Post(asked, "x", ""))
    topic.publish(of_ben.key, of_ben.value)
    assert current(queue) == asked


def test_a_label_that_cannot_be_used_is_reported() -> None:
    class Refusing(Topic):
        def event_labels(self, _event: str) -> list[Label]:
            return []

    queue = session(Refusing())
    with pytest.raises(InputError, match="refused"):
        queue.answer(("x", current(queue)), "on")


@pytest.mark.parametrize(("kind", "asks_again"), [("certify", True), ("learn", False)])
def test_the_random_queue_asks_again_about_a_label_that_was_not_drawn(
    kind: str, asks_again: bool
) -> None:
    topic = Topic()
    first = answer(session(topic, kind))
    from_list = msgspec.structs.replace(topic.labels[first], drawn="given", probability=None)
    topic.publish(from_list.key, from_list.value)
    assert (current(session(topic, kind)) == first) is asks_again


def test_a_post_that_was_deleted_since_the_draw_is_neither_shown_nor_stored() -> None:
    topic, gone = Topic(), FIRST[1]
    result = matches(NAMES)
    frozen = FrozenQueue(CertifyQueue([*result.values()]), result)
    answers = AnswerLog("storm", "ann", frozen, topic)
    queue = LabelSession(frozen, answers, is_deleted=lambda post_id: post_id == ("x", gone))
    assert not queue.asks_about_deleted()
    state = queue.state()
    assert state["question"]["why"]
    assert (state["following"]["on"]["id"], state["following"]["on"]["text"]) == (gone, "")
    answer(queue)
    assert queue.asks_about_deleted()
    card = queue.state()["question"]
    assert (card["text"], card["author"], card["url"], list(card["why"])) == ("", "", None, [])
    assert answer(queue) == gone  # by a page that showed it before
    assert topic.labels[gone].post.text == ""
    assert f"rain {gone}" not in repr(topic.records)


def test_a_queue_is_drawn_again_without_a_deleted_post_that_its_judge_has_not_answered(
    kafka: Kafka, at: FakeMirrors
) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    first, second, third = drawn(NAMES)[:3]
    with judging(at) as queues:
        queue = drawn_queue(queues)
        asked = [current(queue)]
        queue.answer(("x", first), "on")
        for name in (first, second):
            record = {"post": {"id": name, "platform": "x"}, "deleted_at": "2026-03-01T10:00:00Z"}
            kafka.fill(MATCHES, [msgspec.json.encode(record)])
        at.read_matches()
        until(lambda: queues.queue(ANN) is not queue)
        again = drawn_queue(queues)
        assert "deleted" in again.origin.replaced_because
        asked.append(current(again))
        assert again.state()["judged"] == 1
    assert asked == [first, third]


def test_posts_for_the_page_are_bounded() -> None:
    name = drawn(NAMES)[0]
    result = matches([name], why=[["w" * 9, 0.1]] * 10_000)
    (only,) = result.values()
    huge = msgspec.structs.replace(only.post, text="\u202e<b>" * 100_000)
    queue = CertifyQueue([ScoredPost(huge, 0.5)])
    frozen = FrozenQueue(queue, result)
    state = LabelSession(frozen, AnswerLog("e", "a", frozen, Topic())).state()
    assert len(state["question"]["text"]) == MAX_POST_CHARS
    assert len(state["question"]["why"]) == 8


def test_the_curve_is_the_share_on_the_event_after_each_label() -> None:
    queue = session(Topic())
    for verdict in ("on", "off", "on", "unsure"):
        answer(queue, verdict)
    assert queue.state()["shares"] == [1, 1 / 2, 2 / 3, 2 / 4]
