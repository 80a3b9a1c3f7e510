import hashlib
import json
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType
from scipy import stats

from newsift.statistics.labels import Label, QueueName
from newsift.statistics.queues import (
    AnyQueue,
    CertifyQueue,
    LearnQueue,
    Question,
    ScoredPost,
    chosen_goal,
    current_queue,
    deduplicate,
    draw_from_all,
    draw_order,
    is_certify_post,
)
from worker.match.near import draw_key
from worker.posts.outcome import Post, PostId


def candidate(name: int, score: float = 0.5, group: str = "") -> ScoredPost:
    return ScoredPost(Post(str(name), "x", f"post {name}"), score, group)


AT = "2026-11-22T10:00:00Z"
MANY = [candidate(name, score=name / 2_000) for name in range(2_000)]


def test_the_key_is_the_hash_of_the_platform_and_the_id() -> None:
    written = json.dumps(["bluesky", "é1"], ensure_ascii=False, separators=(",", ":"))
    assert draw_key(("bluesky", "é1")) == hashlib.sha256(written.encode()).hexdigest()


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text("ab"))
def test_the_key_of_any_id_is_the_hash_of_a_list_in_json(name: str, nonce: str) -> None:
    names = [nonce, "x", name] if nonce else ["x", name]
    written = json.dumps(names, ensure_ascii=False, separators=(",", ":"))
    assert draw_key(("x", name), nonce) == hashlib.sha256(written.encode()).hexdigest()


def test_the_order_of_arrival_does_not_matter() -> None:
    drawn = draw_order(MANY)
    assert draw_order(MANY[::-1]) == drawn
    assert [draw_key(each.post_id) for each in drawn] == sorted(
        key for match in MANY if int((key := draw_key(match.post_id))[-1], 16) % 2 == 0
    )


def test_a_nonce_keeps_the_first_question_unpredictable() -> None:
    orders = [[each.post_id for each in draw_order(MANY, nonce)] for nonce in ("", "a", "b")]
    assert len({order[0] for order in orders}) == 3
    assert len({tuple(sorted(order)) for order in orders}) == 1  # the half that certifies stays
    first = [CertifyQueue(MANY, name=QueueName(nonce, AT)).next({}) for nonce in ("", "a", "b")]
    assert len({question.candidate.post_id for question in first if question}) == 3
    assert [question.queue for question in first if question] == [
        QueueName(nonce, AT) for nonce in ("", "a", "b")
    ]


def test_labels_name_the_order_of_the_first_and_the_matches_of_the_newest() -> None:
    def label(minute: int, queue: QueueName | UnsetType, by: str = "ann") -> Label:
        at = f"2026-11-22T10:{minute:02}:00Z"
        return Label("on", "e", Post("1", "x", "a"), by, at, "certify", 0.5, queue=queue)

    later = QueueName("b", "2026-11-22T11:00:00+00:00")
    labels = [label(5, later), label(3, QueueName("a", "2026-11-22T09:00:00Z"), "ben")]
    matches = {("x", "1")}
    assert current_queue(labels, matches) == QueueName("a", later.until)
    assert current_queue([label(1, UNSET), *labels], matches) == QueueName("", later.until)
    assert current_queue([label(1, UNSET)], matches) == QueueName("", "2026-11-22T10:01:00Z")
    chosen = QueueName("c", later.until, (0.9, 0.95))
    assert [chosen_goal(each) for each in ([], labels, [label(6, chosen), *labels])] == [
        (0.8, 0.9), (0.8, 0.9), (0.9, 0.95),
    ]  # fmt: skip
    assert current_queue(labels, set()) is None


def test_certifying_and_training_posts_are_disjoint() -> None:
    certify = {match.post_id for match in draw_order(MANY)}
    learn = {match.post_id for match in LearnQueue(MANY, 0.5).order[:5_000]}
    assert not certify & learn
    assert len(certify | learn) == 2_000
    assert 900 < len(certify) < 1_100


def test_a_group_is_in_a_queue_once() -> None:
    copies = [candidate(name, group=f"g{name % 7}") for name in range(70)]
    assert deduplicate([*copies, *copies]) == copies[:7]
    questions = [*draw_order(copies), *LearnQueue(copies, 0.5).order[:99]]
    assert sorted(questions, key=lambda each: each.group) == copies[:7]


def test_learning_asks_around_the_threshold_in_turn() -> None:
    questions = LearnQueue(MANY, 0.5).order[:20]
    assert [each.score >= 0.5 for each in questions] == [True, False] * 10
    assert max(abs(each.score - 0.5) for each in questions) < 0.03
    assert [each.score < 0.5 for each in LearnQueue(MANY[:1_001], 0.5).order[:6]][-3:] == [True] * 3


def test_a_look_after_each_label_asks_about_one_match_after_the_other() -> None:
    copies = [candidate(name, score=0.9, group="g") for name in range(5_000, 5_010)]
    matches = [*MANY, *copies]
    queue, order = CertifyQueue(matches), draw_order(matches)
    best = sorted((match.score for match in order), reverse=True)
    label_of: dict[PostId, bool] = {}
    questions: list[Question] = []
    while queue.progress(label_of).next_match is not None:
        question = queue.next(label_of)
        assert question is not None
        questions.append(question)
        label_of[question.candidate.post_id] = True
    first = [match for match in order if match.score >= best[39]][:16]
    assert [question.candidate for question in questions[:16]] == first
    assert [question.probability for question in questions[:16]] == [
        n / 40 / 2 for n in range(1, 17)
    ]
    assert queue.progress(label_of).threshold == best[-1]
    assert all(is_certify_post(question.candidate.post_id) for question in questions)


@given(st.randoms(use_true_random=False), st.integers(1, 120), st.sampled_from([0.3, 0.8, 0.95]))
def test_after_the_walk_all_matches_are_queued(random: Random, count: int, right: float) -> None:
    queue, label_of = CertifyQueue(MANY[:count]), dict[PostId, bool]()
    ended, shown, output = False, None, ""
    while (question := queue.next(label_of)) is not None:
        progress = queue.progress(label_of)
        if not ended and progress.next_match is None:
            ended, shown, output = True, progress.threshold, queue.out_of_reach(progress)
        if ended:
            assert (progress.threshold, progress.next_match, queue.out_of_reach(progress)) == (
                shown,
                None,
                output,
            )
            own = is_certify_post(question.candidate.post_id)
            assert question.drawn == ("certify" if own else "learn")
            assert 0 < (question.probability or 0) <= 0.5 if own else question.probability is None
            assert queue.labels_left(label_of) == count - len(label_of)
        assert question.candidate.post_id not in label_of
        label_of[question.candidate.post_id] = random.random() < right
    assert len(label_of) == count
    assert queue.progress(label_of).threshold == shown or not ended
    assert queue.lines(label_of)[-1].endswith(", exactly, as all are read")


def test_a_small_event_is_to_be_read_whole_and_its_share_is_then_exact() -> None:
    queue, label_of = CertifyQueue(MANY[:12]), dict[PostId, bool]()
    assert queue.lines(label_of)[0].startswith("12 different matches: read them all")
    while (question := queue.next(label_of)) is not None:
        label_of[question.candidate.post_id] = len(label_of) % 4 > 0
    assert queue.lines(label_of)[-1].startswith("9 of 12 are on the event: 75%, exactly")
    assert not any("read them all" in line for line in CertifyQueue(MANY[:200]).lines({}))


def test_the_estimate_after_the_walk_is_true_on_average_and_its_interval_holds() -> None:
    rng = np.random.default_rng(5)
    shares, missed = [], 0
    for n in range(400):
        matches = [candidate(10_000 * n + place, score=0.9 - place / 1_000) for place in range(120)]
        right = dict(zip((m.post_id for m in matches), rng.random(120) < 0.6, strict=True))
        queue, label_of = CertifyQueue(matches), dict[PostId, bool]()
        while len(label_of) < 40:
            question = queue.next(label_of)
            assert question is not None
            label_of[question.candidate.post_id] = bool(right[question.candidate.post_id])
        result = queue.estimate(queue.progress(label_of), label_of)
        assert result is not None
        (low, share, high), labels = result
        assert labels == 40
        shares.append(share)
        missed += not low <= 0.6 <= high
    assert np.mean(shares) == pytest.approx(0.6, abs=0.015)
    assert missed <= 0.12 * 400


@pytest.mark.parametrize("most", [1, 7, 500, 5_000])
def test_all_posts_of_a_file_are_drawn_in_the_order_of_the_hash(most: int) -> None:
    posts = [each.post for each in MANY] * 2
    Random(3).shuffle(posts)
    first, total = draw_from_all(posts, "a", most)
    keys = sorted({draw_key(post.post_id, "a") for post in posts})
    assert total == len(keys) == 2_000
    assert [draw_key(post.post_id, "a") for post in first] == keys[:most]
    assert draw_from_all([], "a", most) == ([], 0)


def test_recall_in_a_file_is_an_interval_until_all_is_read() -> None:
    order, matched = MANY[:200], {each.post_id for each in MANY[:20]}
    on = {each.post_id for each in MANY[10:30]}
    queue, verdicts = AnyQueue(order, 200, matched, QueueName("a", AT)), dict[PostId, bool]()
    assert queue.recall(verdicts) is None
    verdicts |= {each.post_id: True for each in order[150:]}  # chosen, before their turn
    while (question := queue.next(verdicts)) is not None and len(verdicts) < 75:
        place = len(verdicts) - 50 + 1
        assert (question.drawn, question.probability) == ("any", place / 200)
        verdicts[question.candidate.post_id] = question.candidate.post_id in on
    low, share, high = queue.recall(verdicts) or (0, 0, 0)
    assert share == 10 / 15  # of 25 posts in order
    below, above = (stats.beta.ppf(p, *ab) for p, ab in ((0.05, (10, 6)), (0.95, (11, 5))))
    assert (low, high) == pytest.approx((below, above))
    verdicts |= {each.post_id: each.post_id in on for each in order}
    assert queue.recall(verdicts) == (0.5, 0.5, 0.5)
    assert (queue.next(verdicts), queue.labels_left(verdicts)) == (None, 0)


def test_the_interval_of_recall_holds() -> None:
    """Of the event's 300 posts in 2,000, 60 % match; 200 are read in each of 400 orders."""
    dice, covered = Random(11), 0
    on, matched = set(range(300)), set(range(180)) | set(range(900, 950))
    for _ in range(400):
        order = [candidate(n) for n in dice.sample(range(2_000), 200)]
        queue = AnyQueue(order, 2_000, {("x", str(n)) for n in matched}, QueueName("a", AT))
        low, _, high = queue.recall({c.post_id: int(c.post.id) in on for c in order}) or (1, 0, 0)
        covered += low <= 0.6 <= high
    assert covered >= 0.9 * 400 - 12  # two standard errors
