import json
from typing import Any

import pytest
from msgspec import structs

from encoder.errors import InputError
from newsift.operations.counts import CountedMatches, EventPosts, MatchedFile, draw_count
from newsift.operations.labels import AnswerLog, FrozenQueue, QueueRequest
from newsift.operations.matches import MatchRow, match_rows
from newsift.operations.promises import weigh_evidence
from newsift.statistics.count_draw import frame_key
from newsift.statistics.labels import DEFAULT_GOAL as GOAL
from newsift.statistics.labels import CountDraw, FrozenStrata, Label, QueueName
from newsift.statistics.queues import CountQueue, Question, ScoredPost
from tests.newsift.cli.test_estimate import MATCHED, match_on, near_answer
from tests.worker.command_topics import MATCHES, Kafka
from tests.worker.event_profiles import profile
from tests.worker.fake_web_server import answering
from tests.worker.judged_matches import LabelRecords, drawn, match
from tests.worker.small_encoder import Mail
from worker.config.load import load_config
from worker.kafka.reading import connected
from worker.posts.outcome import Post
from worker.posts.times import LAST_MS, milliseconds
from worker.seeds.profile import Profile

AT = "2026-03-01T10:00:00.000Z"
NAMES = [str(n) for n in range(60)]
FRAME = FrozenStrata(AT, 0.4, {"upper": (60, 40)})


def post(name: str) -> Post:
    return Post(name, "x", "rain")


def question(name: str) -> Question:
    draw = CountDraw("upper", 1, 0, FRAME)
    return Question(ScoredPost(post(name), 0.5), "count", 40 / 60, QueueName("a", AT), draw)


def label(name: str, **changes: Any) -> Label:
    made = Label("on", "storm", post(name), "ann", AT, "certify", 0.5)
    return structs.replace(made, **changes)


def row_of(value: bytes) -> MatchRow:
    message: Any = Mail(value)
    (row,) = match_rows(message, LAST_MS)
    return row


def test_a_draw_asks_again_about_posts_of_others_and_undo_brings_their_labels_back() -> None:
    of_draw = {"drawn": "count", "queue": QueueName("a", AT)}
    before = [
        label("1"),
        label("2", **of_draw),
        label("3", **of_draw | {"queue": QueueName("b", AT)}),
    ]
    queue = CountQueue([question(name) for name in "123"], "a")
    frozen = FrozenQueue(queue, {}, ("ab", "cd"))
    topic = LabelRecords(before)
    log = AnswerLog("storm", "ann", frozen, topic)
    assert log.verdicts() == {("x", "2"): True}
    first = queue.next(log.verdicts())
    assert first == question("1")
    made = log.answer(first, "off")
    assert (made.drawn, made.count, made.seed_set, made.model) == (
        "count", first.count, "ab", "cd"
    )  # fmt: skip
    following = queue.next(log.verdicts())
    assert following
    assert following.candidate.post.id == "3"
    log.undo()
    assert topic.records == [(made.key, made.value), (before[0].key, before[0].value)]
    assert log.verdicts() == {("x", "2"): True}


def test_a_draw_of_a_file_goes_on_when_its_project_is_opened_again(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All posts are matched again then, and the new worker keeps other near misses."""
    topic, begin = LabelRecords(), {0: 0}

    def draw(first: int, posts: int = 9_999) -> FrozenQueue:
        with answering(near_answer(first=first)) as address:
            monkeypatch.setenv("NEWSIFT_DESK__WORKERS", address)
            config = load_config()
            with connected(config) as cluster:
                source = EventPosts(cluster, config, "storm", MatchedFile(begin, posts))
                request = QueueRequest("storm", "ann", "count", 0, "n", 40, is_file=True)
                return draw_count(source, request, topic.event_labels("storm"))

    kafka.fill(MATCHES, [match_on(n) for n in range(MATCHED)])
    with pytest.raises(InputError, match="more than once"):
        draw(0, posts=9_998)
    frozen = draw(0)
    log = AnswerLog("storm", "ann", frozen, topic)
    for _ in range(30):
        question = frozen.queue.next(log.verdicts())
        assert question
        log.answer(question, "on")
    with connected(load_config()) as cluster:
        begin = cluster.ends(MATCHES)
    later = "2099-03-02T10:00:00Z"
    kafka.fill(MATCHES, [match_on(n, processed_at=later) for n in range(MATCHED)])
    queue = draw(150).queue
    assert isinstance(queue, CountQueue)
    assert (len(queue.questions), queue.labels_left(log.verdicts())) == (40, 10)


def test_rows_hold_what_any_record_says() -> None:
    rows = CountedMatches()
    for name, timestamp, seeds, processed in (
        ("1", 5, "old", "2026-03-02T00:00:00Z"), ("2", 2**63, "new", "2026-03-03T00:00:00Z"),
        ("2", 7, "new", "2026-03-03T00:00:00Z"), ("3", -(2**60), "new", "2026-03-04T00:00:00Z"),
        ("4", 9, "new", "never"),
    ):  # fmt: skip
        record = json.loads(match(name, group="g"))
        record |= {"seed_set": seeds, "processed_at": processed}
        record["source"]["timestamp"] = timestamp
        rows.add(row_of(json.dumps(record).encode()), "n")
    assert rows.newest == (("new", "cd"), milliseconds("2026-03-04T00:00:00Z"))
    posts = rows.select(("new", "cd"), milliseconds("2026-03-03T00:00:00Z"))
    by_key = dict(zip(posts.keys.tolist(), posts.times.tolist(), strict=True))
    assert by_key == {frame_key(("x", "2"), "n"): LAST_MS, frame_key(("x", "4"), "n"): 9}
    assert set(posts.groups.tolist()) == {frame_key("g", "n")}
    assert not len(rows.select(("gone", "cd"), LAST_MS))


def test_labels_of_a_count_serve_a_promise_where_its_walk_meets_them() -> None:
    made = Profile(**profile("storm", {"flood": "river flood"}))
    matches = [row_of(match(n, seed_id=made.id, seed_version=made.version)) for n in NAMES]
    order, queue = drawn(NAMES), QueueName("", AT)
    walked = [label(name, queue=queue) for name in order]
    mixed = [
        label(name, drawn="count", queue=QueueName("a", AT)) if n % 2 else walked[n]
        for n, name in enumerate(order)
    ]
    given = [
        structs.replace(each, drawn="given") if n % 2 else each for n, each in enumerate(mixed)
    ]
    expected, result, less = (
        weigh_evidence(labels, matches, made, GOAL) for labels in (walked, mixed, given)
    )
    assert result == expected
    assert expected.threshold is not None
    assert less.threshold is None
    none = weigh_evidence([each for each in mixed if each.drawn == "count"], matches, made, GOAL)
    assert (none.threshold, none.labels) == (None, 0)
