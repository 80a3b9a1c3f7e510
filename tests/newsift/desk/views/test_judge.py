import json
from collections.abc import Callable, Container, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from encoder import Encoder
from encoder.errors import InputError
from newsift.desk.api import Endpoint
from newsift.desk.session import Desk
from newsift.desk.views import judge as judging
from newsift.desk.views.events import event_exists
from newsift.desk.views.judge import MAX_DISPUTED, MAX_PEOPLE, judges, promise, promise_test
from newsift.desk.views.learning import learn, publish
from newsift.operations.actor import acting_as
from newsift.operations.events import PromiseTarget
from newsift.operations.promises import PromiseEvidence
from newsift.statistics.labels import DECODER, Label, Verdict
from newsift.statistics.promise import LabelPlan, confidence_of_test, labels_missing
from tests.broker.clients import until
from tests.newsift.cli.events.ferry_event import (
    add_ferry_posts,
    add_seeds,
    certifying,
    first_cut,
    label,
    match_all,
    published,
)
from tests.newsift.desk.desk_client import call, open_desk
from tests.worker.command_topics import LABELS, MATCHES, SEEDS, Kafka
from tests.worker.fake_command import Command
from tests.worker.judged_matches import drawn, match
from tests.worker.shared_encoder import enc, loaded_once
from worker.errors import ConflictError
from worker.posts.outcome import Post, PostId

NAMES = [str(n) for n in range(120)]


@pytest.fixture
def desk(kafka: Kafka) -> Iterator[Desk]:
    kafka.fill(MATCHES, [match(n, 0.9 - 0.001 * int(n)) for n in NAMES])
    with open_desk(matches=True) as desk:
        desk.queues._nonce = ""  # the order is then that of the hashes
        yield desk


def does(desk: Desk, endpoint: Endpoint, **values: Any) -> Any:
    return call(desk, endpoint, **{"event": "storm", **values})


def asks(desk: Desk, **goal: str) -> Any:
    def question() -> Any:
        return does(desk, judging.question, by="ann", kind="certify", **goal)

    until(lambda: not question()["drawing"])
    return question()


def test_a_label_from_the_list_keeps_how_the_post_was_drawn(desk: Desk) -> None:
    def label(post: str, verdict: str) -> Any:
        return does(desk, judging.label_match, by="ann", platform="x", id=post, verdict=verdict)

    def labels() -> dict[str, Label]:
        return {each.post.id: each for each in desk.mirrors.labels.event_labels("storm")}

    state = asks(desk)
    first = state["question"]["id"]
    listed = next(name for name in NAMES if name != first)
    assert label(listed, "on") is True
    post = {"platform": "x", "id": first, "verdict": "on"}
    does(desk, judging.answer, by="ann", kind="certify", queue=state["queue"], **post)
    until(lambda: len(labels()) == 2)
    assert (label(first, "on"), label(first, "off")) == (False, True)
    with pytest.raises(InputError, match="judge another"):
        label("nowhere", "on")
    until(lambda: labels()[first].label == "off")
    assert (labels()[listed].label, labels()[listed].drawn) == ("on", "given")
    assert labels()[listed].score == pytest.approx(0.9 - 0.001 * int(listed))
    assert labels()[first].drawn == "certify"
    assert labels()[first].probability is not None


def test_a_note_is_shared_and_not_overwritten_unseen(desk: Desk, kafka: Kafka) -> None:
    def note() -> Any:
        return does(desk, event_exists)["note"]

    def write(text: str, seen: str, by: str = "ann") -> None:
        does(desk, judging.write_note, by=by, note=text, seen=seen)

    assert note() is None
    write(" jokes are off\n", "")
    first = note()
    assert (first["text"], first["by"]) == ("jokes are off", "ann")
    with pytest.raises(InputError, match="somebody has changed it"):
        write("jokes are on", "", "bob")
    write("jokes are on", first["at"], "bob")
    assert (note()["text"], note()["by"]) == ("jokes are on", "bob")
    write("", note()["at"])
    assert note() is None
    records = kafka.records(LABELS)
    assert [(r.key, r.value is None) for r in records] == [
        (b'["storm"]', False), (b'["storm"]', False), (b'["storm"]', True),
    ]  # fmt: skip
    assert records[0].headers == [("schema", b"newsift.note/1")]


def test_the_desk_decides_how_a_post_was_drawn(desk: Desk, kafka: Kafka) -> None:
    state = asks(desk, precision="0.9", confidence="0.8")
    post = {"platform": "x", "id": state["question"]["id"], "verdict": "on"}
    queue = {"queue": state["queue"], "precision": 0.9, "confidence": 0.8}
    values = {"by": "ann", "kind": "certify"} | queue | post
    does(desk, judging.answer, **values, drawn="given", probability=1.0, score=0.1)
    (record,) = kafka.records(LABELS)
    label = DECODER.decode(record.value)
    assert record.headers == [("schema", b"newsift.label/1")]
    assert (label.drawn, label.probability) == ("certify", 0.5 / 64)
    assert label.queue
    assert label.queue.goal == (0.9, 0.8)
    until(lambda: desk.mirrors.labels.event_labels("storm"))
    desk.queues._active.clear()
    assert asks(desk)["left"] == state["left"] - 1  # the goal stays
    assert label.score == 0.9 - 0.001 * int(label.post.id)


def test_the_audit_records_whether_a_label_was_published(desk: Desk, kafka: Kafka) -> None:
    state = asks(desk)
    queue = {"by": "ann", "kind": "certify", "queue": state["queue"]}
    post = {"platform": "x", "id": state["question"]["id"]}
    first = drawn(NAMES)[0]
    steps: list[tuple[Endpoint, dict[str, Any]]] = [
        (judging.answer, {**post, "verdict": "on"}),
        (judging.answer, {**post, "verdict": "on"}),
        (judging.answer, {**post, "verdict": "off"}),
        (judging.correct, {"platform": "x", "id": first, "verdict": "off"}),
        (judging.undo, {"step": 2}),
        (judging.undo, {"step": 2}),
        (judging.redraw, {}),
        (judging.redraw, {}),
    ]
    outcomes = [each.outcome(does(desk, each, **queue, **values)) for each, values in steps]
    assert [each.partition(":")[0] for each in outcomes] == [
        "done", "not published", "not published", "done", "done", "not published", "done",
        "nothing done",
    ]  # fmt: skip
    assert len(kafka.records(LABELS)) == outcomes.count("done") - 1


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ({"event": "é" * 121}, "event: 242 bytes"),
        ({"by": "x" * 241}, "by: 241 bytes"),
        ({"kind": "values"}, "kind: Invalid enum value"),
    ],
)
def test_invalid_names_are_refused(desk: Desk, values: Any, answer: str) -> None:
    with pytest.raises(InputError, match=answer):
        does(desk, judging.question, **{"by": "ann", **values})


EVIL = "\u202e<script>alert(1)</script>"
JUDGES: tuple[tuple[str, Verdict], ...] = (("ann", "on"), ("ben", "off"))


def given_label(post: int, by: str, verdict: Verdict, **changes: Any) -> Label:
    values = {"at": f"2026-03-01T10:00:{post % 60:02}Z", "drawn": "given"} | changes
    return Label(verdict, "storm", Post(str(post), "x", f"rain {post}"), by, **values)


def answer(
    labels: list[Label], away: str = "", deleted: Container[PostId] = (),
    rows: Mapping[PostId, Any] = {},
) -> Any:  # fmt: skip
    mirrors = SimpleNamespace(
        labels=SimpleNamespace(
            event_labels=lambda event: tuple(labels) if event == "storm" else ()
        ),
        labels_follower=SimpleNamespace(error=away),
    )
    matches = SimpleNamespace(
        is_deleted=deleted.__contains__, row=lambda _event, post_id: rows.get(post_id)
    )
    desk: Any = SimpleNamespace(mirrors=mirrors, matches=matches)
    return call(desk, judges, event="storm")


def test_two_judges_are_counted_and_compared() -> None:
    ann = [given_label(n, "ann", "on" if n < 6 else "off", drawn="learn") for n in range(10)]
    ben = [given_label(n, "ben", "on" if n < 4 else "off") for n in range(8)]
    result = answer([*ann, *ben])
    none = {"unsure": 0, "certify": 0, "count": 0, "any": 0}
    assert result["counts"] == [
        {"by": "ann", "on": 6, "off": 4, "learn": 10, "given": 0} | none,
        {"by": "ben", "on": 4, "off": 4, "learn": 0, "given": 8} | none,
    ]
    pair = {"judge_a": "ann", "judge_b": "ben", "posts": 8, "agreement": 0.75, "kappa": 0.5}
    assert result["pairs"] == [pair]
    assert [post["id"] for post in result["disputed"]] == ["5", "4"]  # the newest first
    assert result["disputed"][0]["labels"] == [
        {"by": "ann", "label": "on"}, {"by": "ben", "label": "off"}
    ]  # fmt: skip


def test_a_deleted_post_that_is_disputed_shows_its_labels_alone() -> None:
    labels = [given_label(n, "ann", "on") for n in (4, 5)]
    labels += [given_label(n, "ben", "off") for n in (4, 5)]
    result = answer(labels, deleted=[("x", "4")])
    assert {post["id"]: (post["text"], len(post["labels"])) for post in result["disputed"]} == {
        "4": ("", 2), "5": ("rain 5", 2),
    }  # fmt: skip


def test_a_disputed_post_has_what_its_card_shows() -> None:
    labels = [given_label(n, by, verdict, score=0.508) for n in (4, 5)
              for by, verdict in JUDGES]  # fmt: skip
    rows = {("x", "4"): SimpleNamespace(threshold=0.161)}
    result = answer(labels, deleted=[("x", "5")], rows=rows)
    cards = [(post["id"], post["threshold"], post["is_deleted"]) for post in result["disputed"]]
    assert cards == [("5", None, True), ("4", 0.161, False)]


def test_disputed_posts_are_sorted_by_time() -> None:
    times = ("2026-03-01T12:00:00+02:00", "9999-12-31T23:59:59Z", "2026-03-01T03:30:00-07:00")
    labels = [given_label(n, "ann", "on", at=at) for n, at in enumerate(times)]
    labels += [given_label(n, "ben", "off", at=at) for n, at in enumerate(times)]
    assert [post["id"] for post in answer(labels)["disputed"]] == ["1", "2", "0"]


def test_the_answer_is_bounded() -> None:
    verdicts: tuple[Verdict, Verdict] = ("on", "off")
    labels = [given_label(post, f"p{by:03}{EVIL}", verdicts[by % 2])
              for by in range(MAX_PEOPLE + 5) for post in range(MAX_DISPUTED + 5)]  # fmt: skip
    result = answer(labels, "no broker")
    assert (len(result["counts"]), result["people"]) == (MAX_PEOPLE, MAX_PEOPLE + 5)
    assert (len(result["disputed"]), result["all_disputed"]) == (MAX_DISPUTED, MAX_DISPUTED + 5)
    assert len(result["pairs"]) == 190
    assert max(len(post["labels"]) for post in result["disputed"]) == 20
    assert result["error"] == "no broker"


__all__ = ["enc", "loaded_once"]

NEEDED = labels_missing(0, 0, 0.8, confidence_of_test(0.9, 1))


@pytest.fixture
def ferry_desk(kafka: Kafka) -> Iterator[Desk]:
    add_seeds(kafka)
    with open_desk(model=True, matches=True) as desk:
        yield desk


def promise_of(desk: Desk, **values: Any) -> Any:
    return call(desk, promise_test, event="ferry", **values)


def wait_for(desk: Desk, condition: Callable[[Any], object]) -> Any:
    until(lambda: condition(promise_of(desk)))
    return promise_of(desk)


def set_promise(desk: Desk, **values: Any) -> Any:
    request = {"event": "ferry", "by": "Åsa", "precision": 0.8, "confidence": 0.9}
    with acting_as("Åsa"):  # as the site does
        return call(desk, promise, **request | values)


def publish_profile(desk: Desk) -> str:
    values: Any = {"event": "ferry", "by": "Åsa"}
    call(desk, learn, **values, hours=0, labels=False)
    until(lambda: not desk.training.busy_event)
    run = desk.training.run_of("ferry")
    assert run is not None
    assert run.proposal is not None
    assert (run.refusal, run.risk) == ("", "")
    version = run.proposal.profile.version
    call(desk, publish, **values, version=version)
    return version


def test_the_page_promises_what_the_command_promises(
    ferry_desk: Desk, kafka: Kafka, enc: Encoder, newsift: Command
) -> None:
    assert promise_of(ferry_desk) == {"profile": None, "loading": False}
    with pytest.raises(InputError, match="a promise needs a profile"):
        set_promise(ferry_desk, evidence="")
    with pytest.raises(InputError, match="precision"):
        promise_of(ferry_desk, precision="1")
    publish_profile(ferry_desk)
    bare = published(kafka)
    add_ferry_posts(kafka)
    own = list(certifying(match_all(kafka, enc)))
    result = wait_for(ferry_desk, lambda result: result["profile"] and result["result"].matches)
    assert (result["result"].missing, result["result"].threshold) == (NEEDED, None)
    plan = msgspec.to_builtins(result["result"])["plan"]  # as the page gets it
    assert (plan["at_best"], plan["usual"], plan["expected_share"]) == (NEEDED, 0, 0.9)
    assert result["hourly"]["window"] == "in the minute seen"
    cut = first_cut(own)
    for record in [record for record in own if record.matches[0].score >= cut][:NEEDED]:
        label(kafka, record, "on")
    result = wait_for(ferry_desk, lambda result: result["result"].threshold is not None)
    assert (result["result"].threshold, result["result"].labels) == (cut, NEEDED)
    (row,) = json.loads(f"[{newsift('events', 'promise', 'ferry', '--json', '--yes').out}]")
    assert (row["threshold"], row["set"]) == (cut, True)
    assert newsift("events", "learn", "ferry", "--background", "--yes").code == 2
    assert newsift("events", "forget", "ferry", "--yes").code == 0
    assert published(kafka) == bare
    result = wait_for(ferry_desk, lambda result: result["promise"] is None)
    shown = result["result"].version
    label(kafka, own[-1], "off")
    with pytest.raises(ConflictError, match="look at it, and promise that"):
        set_promise(ferry_desk, evidence=shown)
    shown = promise_of(ferry_desk)["result"].version
    with pytest.raises(InputError, match="can show no more"):
        set_promise(ferry_desk, evidence=shown, precision=0.95)
    assert published(kafka).promise is None
    assert set_promise(ferry_desk, evidence=shown) == {"threshold": cut}
    created = published(kafka)
    assert created.promise is not None
    answer = {"by": "Åsa", "labels": NEEDED + 1, "precision": 0.8, "confidence": 0.9}
    assert created.promise | answer == created.promise
    result = wait_for(ferry_desk, lambda result: result["promise"])
    assert (result["threshold"], result["promise"]) == (cut, created.promise)


def test_a_profile_that_changes_during_a_promise_is_not_overwritten(
    ferry_desk: Desk, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_profile(ferry_desk)
    other = json.dumps(published(kafka).record() | {"threshold": 0.75}).encode()

    def weigh(*_: object) -> PromiseEvidence:
        kafka.send(SEEDS, other, b"profile|ferry")
        plan, target = LabelPlan(19, 30, 0, 0.9), PromiseTarget(0.8, 0.9, 1)
        return PromiseEvidence("v", target, 0.5, 0, False, 20, 20, 30, plan)

    wait_for(ferry_desk, lambda result: result["profile"])
    monkeypatch.setattr(judging, "weigh_evidence", weigh)
    with pytest.raises(ConflictError, match="was published by somebody else"):
        set_promise(ferry_desk, evidence="v")
    assert (published(kafka).threshold, published(kafka).promise) == (0.75, None)
