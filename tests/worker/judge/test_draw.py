"""Draws are in the order of a hash, one of each group, and what certifies never trains."""

import hashlib
import json

import numpy as np
import pytest

from worker.judge.draw import (
    Candidate,
    best_of,
    certifies_only,
    certify_queue,
    cuts_between,
    distinct,
    draw_key,
    learn_queue,
    next_to_certify,
    random_part,
    to_certify,
)
from worker.judge.labels import PostId
from worker.posts.outcome import Post


def candidate(name: int, score: float = 0.5, group: str = "") -> Candidate:
    return Candidate(Post(str(name), "x", f"post {name}"), score, group)


MANY = [candidate(name, score=name / 2_000) for name in range(2_000)]


def test_the_key_is_the_hash_of_the_platform_and_the_id() -> None:
    written = json.dumps(["bluesky", "é1"], ensure_ascii=False, separators=(",", ":"))
    assert draw_key(("bluesky", "é1")) == hashlib.sha256(written.encode()).hexdigest()


def test_the_order_of_arrival_does_not_matter() -> None:
    drawn = certify_queue(MANY, 50)
    assert certify_queue(MANY[::-1], 50) == drawn
    assert len({each.candidate.post_id for each in drawn}) == 50
    assert [draw_key(each.candidate.post_id) for each in drawn] == sorted(
        key for match in MANY if int((key := draw_key(match.post_id))[-1], 16) % 2 == 0
    )[:50]


def test_every_match_has_the_probability_that_is_said() -> None:
    drawn = certify_queue(MANY, 50)
    assert {each.probability for each in drawn} == {50 / 2_000}
    assert {each.probability for each in certify_queue(MANY, 50, among=9_000)} == {50 / 9_000}
    times = np.zeros(40)
    for n in range(4_000):  # other names, other draws
        matches = [candidate(40 * n + place) for place in range(40)]
        for each in certify_queue(matches, 8):
            times[int(each.candidate.post.id) % 40] += 1
    assert times.mean() == 4_000 * 8 / 40
    spread = np.sqrt(4_000 * 0.2 * 0.8)
    assert (np.abs(times - 800) < 4.5 * spread).all()


def test_fewer_matches_than_are_wanted_are_all_drawn() -> None:
    drawn = certify_queue(MANY[:10], 50)
    certifying = [match for match in MANY[:10] if certifies_only(match.post_id)]
    assert {each.candidate.post_id for each in drawn} == {match.post_id for match in certifying}
    assert [each.probability for each in drawn] == [len(certifying) / 10] * len(certifying)
    assert certify_queue([], 50) == []


def test_what_certifies_and_what_trains_have_no_post_in_common() -> None:
    certify = {match.post_id for match in to_certify(MANY)}
    learn = {match.post_id for match in learn_queue(MANY, 0.5, (), 5_000)}
    assert not certify & learn
    assert len(certify | learn) == 2_000
    assert 900 < len(certify) < 1_100


def test_a_group_is_asked_about_once_by_its_first() -> None:
    copies = [candidate(name, group=f"g{name % 7}") for name in range(70)]
    assert distinct([*copies, *copies]) == copies[:7]
    asked = [*to_certify(copies), *learn_queue(copies, 0.5, (), 99)]
    assert sorted(asked, key=lambda each: each.group) == copies[:7]


def test_learning_asks_around_the_threshold_in_turn() -> None:
    asked = learn_queue(MANY, 0.5, (), 20)
    assert [each.score >= 0.5 for each in asked] == [True, False] * 10
    assert max(abs(each.score - 0.5) for each in asked) < 0.03
    known = {each.post_id for each in asked}
    assert not known & {each.post_id for each in learn_queue(MANY, 0.5, known, 20)}
    assert [each.score < 0.5 for each in learn_queue(MANY[:1_001], 0.5, (), 6)][-3:] == [True] * 3


def test_what_was_labelled_before_the_first_gap_stands_for_all() -> None:
    order = [match.post_id for match in to_certify(MANY) if match.score >= 0.75]
    known: dict[PostId, bool] = {post_id: n % 3 > 0 for n, post_id in enumerate(order[:30])}
    known |= dict.fromkeys(order[40:50], True)
    labels, weight = random_part(MANY, 0.75, known.get)
    assert labels == [n % 3 > 0 for n in range(30)]
    assert weight * len(labels) == pytest.approx(500)
    assert random_part(MANY, 2, known.get) == ([], 0)


def test_the_best_are_those_that_a_threshold_would_let_pass() -> None:
    assert [match.score for match in best_of(MANY, 3)] == [0.9985, 0.999, 0.9995]
    ties = [candidate(name, score=name // 10 / 10) for name in range(100)]
    assert best_of(ties, 15) == ties[80:]
    assert best_of(ties, 500) == ties
    assert best_of([], 5) == []


def test_a_look_after_each_label_asks_about_one_match_after_the_other() -> None:
    copies = [candidate(name, score=0.9, group="g") for name in range(5_000, 5_010)]
    matches = [*MANY, *copies]
    cuts, order = cuts_between(matches), to_certify(matches)
    best = sorted((match.score for match in order), reverse=True)
    assert cuts.cuts[:2] == (best[24], best[39])
    known: dict[PostId, bool] = {}
    asked = []
    while (step := next_to_certify(cuts, matches, known.get))[1] is not None:
        asked.append(step[1])
        known[step[1].candidate.post_id] = True
    first = [match for match in order if match.score >= best[24]][:16]
    assert [drawn.candidate for drawn in asked[:16]] == first
    assert [drawn.probability for drawn in asked[:16]] == [n / 25 / 2 for n in range(1, 17)]
    assert step[0].threshold == best[-1]
    assert all(certifies_only(drawn.candidate.post_id) for drawn in asked)
