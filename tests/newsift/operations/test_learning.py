import json
import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from msgspec import structs

from encoder import Encoder
from encoder.errors import InputError
from newsift.operations.events import EventState, PromiseTarget
from newsift.operations.matches import MatchLog, MatchRow
from newsift.operations.messages import capture
from newsift.operations.profile_training import (
    MAX_COUNTED_TEXTS,
    MatchCounter,
    PostPool,
    TrainingData,
    report_labels,
    training_posts,
)
from newsift.operations.promises import PromiseEvidence, require_profile, weigh_evidence
from newsift.statistics.feedback import AuthoredPosts, event_vector, mean_vector
from newsift.statistics.labels import DEFAULT_GOAL as GOAL
from newsift.statistics.labels import Goal, Label, QueueName
from newsift.statistics.queues import is_certify_post
from tests.newsift.cli.events.ferry_event import ARTICLES, is_on, sample_posts
from tests.newsift.desk.match_records import HOUR, NOON, moment, record
from tests.worker.event_profiles import profile, profile_of
from tests.worker.small_encoder import ARTICLES as SMALL_ARTICLES
from tests.worker.small_encoder import Mail
from worker.posts.outcome import Post
from worker.seeds.profile import EventVector, Profile

ON = [str(post["text"]) for post in sample_posts() if is_on(post)]


@pytest.fixture
def start(enc: Encoder) -> EventVector:
    rows = enc.articles(list(ARTICLES.values()))
    return event_vector(mean_vector(rows), rows)


def shown(enc: Encoder, pool: PostPool, posts: list[Post]) -> None:
    for at in range(0, len(posts), 50):
        some = posts[at : at + 50]
        pool.add(some, enc.skim([post.text for post in some]))


def test_a_refused_profile_is_not_in_force() -> None:
    with pytest.raises(InputError, match="bad"):
        require_profile(EventState("flood", profile_status="refused", why="bad"))


def test_a_small_pool_holds_the_best_of_all(enc: Encoder, start: EventVector) -> None:
    posts = [Post(str(n), "plain", str(p["text"])) for n, p in enumerate(sample_posts())]
    pool = PostPool(start, enc.posts([]), most=12)
    shown(enc, pool, posts)
    train = [post for post in posts if not is_certify_post(("plain", post.id))]
    voices = AuthoredPosts.anonymous(enc.skim([post.text for post in train]))
    whole = voices.best(start, 12, AuthoredPosts.anonymous(enc.skim([])))
    stored = pool.with_authors.best(start, 12, AuthoredPosts.anonymous(enc.skim([])))
    assert [pool.posts[n].id for n in stored] == [train[n].id for n in whole]


def test_a_flood_does_not_push_others_out(enc: Encoder, start: EventVector) -> None:
    others = [Post(f"o{n}", "x", text, author=f"a{n}") for n, text in enumerate(ON)]
    title = ARTICLES["fire"][0]
    copies = [Post(f"c{n}", "x", f"{title} {n}") for n in range(300)]
    rng = np.random.default_rng(3)
    words = title.split()
    one = [Post(f"f{n}", "x", " ".join(rng.permutation(words)), author="f") for n in range(300)]
    pool = PostPool(start, enc.posts([]), most=40)
    shown(enc, pool, [*copies, *others, *one])
    best = pool.with_authors.best(start, 40, AuthoredPosts.anonymous(enc.skim([])))
    received = [pool.posts[n] for n in best]
    assert sum(post.id.startswith("o") for post in received) > 8
    assert sum(post.author == "f" for post in received) <= 1
    assert sum(post.id.startswith("c") for post in received) <= 1
    assert len(pool.posts) <= 80


def test_matches_are_counted_once_for_what_they_say() -> None:
    matches = MatchCounter()
    matches.add(5, ["A ferry burns", "RT @x: A ferry burns https://t.co/x", "Another", ""])
    assert (matches.read, matches.matched) == (5, 2)
    assert matches.matched < MAX_COUNTED_TEXTS


@pytest.mark.parametrize(
    ("now", "before", "burst"),
    [
        ((1000, 40), (1000, 2), True),
        ((1000, 10), (1000, 9), False),
        ((1000, 40), (50, 0), None),
        ((0, 0), (1000, 9), None),
    ],
)
def test_a_burst_needs_a_history(
    now: tuple[int, int], before: tuple[int, int], burst: bool | None
) -> None:
    lesson = TrainingData()
    for matches, (read, matched) in ((lesson.now, now), (lesson.before, before)):
        matches.add(read, (f"post number {n}" for n in range(matched)))
    assert lesson.burst(1) is burst


def target(**promise: Any) -> PromiseTarget:
    storm = Profile(**profile("storm", {"flood": SMALL_ARTICLES["flood"]}, promise=promise))
    return PromiseTarget.of_draw(None, storm, (), GOAL)


def test_a_promise_that_is_renewed_keeps_its_share_of_the_error() -> None:
    assert target(test=7).test == 7
    assert target(test=7).test_confidence == pytest.approx(1 - 0.1 * 6 / (49 * math.pi**2))


@pytest.mark.parametrize("test", [10**400, 10**30, -1, 0, True, "7", [], None, 1e9])
def test_replaces_an_impossible_number_of_a_test(test: object) -> None:
    assert target(test=test).test > 0
    assert 0 < target(test=test).test_confidence < 1


def rows_of(records: list[dict[str, Any]], event: str, is_file: bool = False) -> list[MatchRow]:
    log = MatchLog(2**27, is_file)
    log.apply([cast(Any, Mail(json.dumps(each).encode())) for each in records], NOON)
    return log.draw_rows(event)


def test_a_deleted_post_is_evidence_by_its_label_alone() -> None:
    """Else the walk would wait for ever for a label that nobody can give."""
    names = [str(n) for n in range(200) if is_certify_post(("plain", str(n)))][:60]
    deletions = [
        {"post": {"id": name, "platform": "plain"}, "deleted_at": "2026-03-01T10:00:00Z"}
        for name in names[:4]
    ]
    given = [
        Label("on", "storm", Post(name, "plain", ""), "ann", "2027-01-01T10:00:00Z", "certify", 0.5)
        for name in (*names[:2], *names[4:])
    ]
    storm = Profile(**profile("storm", {"flood": "flood"}))
    made = {"seed_id": storm.id, "seed_version": storm.version}
    found = [
        rows_of(records, "storm")
        for records in (
            [record(n, 0.5, event="storm", match=made, group=n) for n in names] + deletions,
            [record(n, 0.5, event="storm", match=made, group=n) for n in (*names[:2], *names[4:])],
        )
    ]
    with_deletions, without_them = (weigh_evidence(given, each, storm, GOAL) for each in found)
    assert with_deletions.threshold == without_them.threshold == 0.5
    assert (with_deletions.labels, with_deletions.matches) == (58, 60)


def test_evidence_has_another_version_if_it_may_show_something_else() -> None:
    storm = Profile(**profile("storm", {"flood": "flood"}))
    made: dict[str, Any] = {"event": "storm", "match": {"seed_id": storm.id,
                            "seed_version": storm.version}}  # fmt: skip
    records = [record(f"{n}", 0.5, NOON + n, group=f"{n}", **made) for n in range(60)]
    until = QueueName("n", moment(NOON + 60 + 5))
    labels = [
        Label("on", "storm", Post(f"{n}", "plain", ""), "ann", moment(NOON), "certify", 0.5,
              queue=until)
        for n in range(60) if is_certify_post(("plain", f"{n}"))
    ]  # fmt: skip
    later = record("later", 0.9, NOON + HOUR, group="later", **made)
    by_seed = record("other", 0.9, event="storm", group="other")

    def version(given: Sequence[Label], extra: Sequence[Any] = (), goal: Goal = GOAL) -> str:
        rows = rows_of([*records, *extra], "storm")
        return weigh_evidence(given, rows, storm, goal).version

    first = version(labels)
    assert {version(labels), version(labels, [later, by_seed, records[0]])} == {first}
    off = [*labels[:-1], structs.replace(labels[-1], label="off")]
    others = [
        version(labels[:-1]), version(off), version(labels, [record("0a", 0.5, **made)]),
        version(labels, goal=(0.7, 0.9)),
        version([structs.replace(each, queue=structs.replace(until, test=2)) for each in labels]),
    ]  # fmt: skip
    assert len({first, *others}) == 1 + len(others)


def test_nothing_is_learned_from_a_deleted_post_or_from_what_measures_recall() -> None:
    train = [str(n) for n in range(40) if not is_certify_post(("x", str(n)))]
    posts = [Post(name, "x", "" if name == train[0] else "rain") for name in train]
    given = [Label("on", "storm", each, "ann", "2027-01-01T10:00:00Z", "given") for each in posts]
    assert training_posts(given) == (posts[1:], [])
    assert training_posts([structs.replace(label, drawn="any") for label in given]) == ([], [])


def test_a_file_that_is_opened_again_keeps_what_its_labels_prove(enc: Encoder) -> None:
    """All matches come anew, later than the labels, and from a promise on only those above it."""
    ferry = profile_of(enc, "ferry", {"s1": ("", SMALL_ARTICLES["game"])})
    of_profile = {"seed_id": ferry.id, "seed_version": ferry.version}
    scores = {f"{n}": 0.9 - n / 1000 for n in range(300) if is_certify_post(("plain", f"{n}"))}
    day = "2020-01-01T00:00:00Z"
    labels = [
        Label(
            "on", "ferry", Post(name, "plain", "t"), "ann", day, "certify", 0.5,
            queue=QueueName("n", day),
        )
        for name in [*scores][:40]
    ]  # fmt: skip

    def evidence(
        profile: Profile, is_file: bool, least: float = 0, given: Sequence[Label] = labels
    ) -> PromiseEvidence:
        records = [
            record(name, score, match=of_profile) for name, score in scores.items() if score > least
        ]
        rows = rows_of(records, "ferry", is_file)
        return weigh_evidence(given, rows, profile, GOAL, is_file)

    assert evidence(ferry, is_file=False).matches == 0
    opened = evidence(ferry, is_file=True)
    assert (opened.labels, opened.matches, opened.more) == (40, len(scores), True)
    assert opened.threshold is not None
    promise = {"precision": 0.8, "confidence": 0.9, "test": 1}
    promised = replace(ferry, threshold=opened.threshold, promise=promise)
    later = evidence(promised, is_file=True, least=opened.threshold - 1e-9)
    assert (later.threshold, later.more, later.out_of_reach) == (opened.threshold, False, "")
    off = [structs.replace(label, label="off") for label in labels]
    others = [structs.replace(label, by="ben", drawn="given") for label in off]
    for given in (off, [*labels, *others], labels[:9]):
        assert evidence(promised, True, opened.threshold - 1e-9, given).threshold is None


def test_learning_warns_of_lost_words_few_labels_and_repeated_texts() -> None:
    def warnings(lost: list[str], labels: int, texts: list[str]) -> list[str]:
        made = {"lost": [(word, -0.1) for word in lost], "labels": labels}
        seeds = [SimpleNamespace(title="Fire on the ferry Astrid Vane", text="Nine are missing")]
        on = [Post(f"{n}", "plain", text) for n, text in enumerate(texts)]
        proposal: Any = SimpleNamespace(
            profile=SimpleNamespace(made=made), event=SimpleNamespace(seeds=seeds),
            data=TrainingData(on=on),
        )  # fmt: skip
        with capture() as lines:
            report_labels(proposal)
        return lines

    different = [f"post {n} of its own words {n * n}" for n in range(40)]
    assert warnings(["bargain"], 40, different) == []
    assert warnings([], 0, []) == []
    (words,) = warnings(["Ferry", "bargain", "vane"], 40, different)
    assert words.endswith(": Ferry, vane")
    assert warnings(["missing"], 0, []) == []
    (words,) = warnings(["missing", "are"], 40, different)
    assert words.endswith(": missing")
    (few,) = warnings([], 4, different)
    assert "4 labels alone" in few
    (same,) = warnings([], 40, [*different[:29], *["the ferry burns"] * 11])
    assert "11 of 40" in same
