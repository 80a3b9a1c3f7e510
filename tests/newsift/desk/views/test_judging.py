"""What the page asks and does of judging, on a broker, held against `newsift labels ask`."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from encoder.errors import InputError
from newsift.desk import labelling as judging_queues
from newsift.desk.api import Endpoint
from newsift.desk.session import Desk
from newsift.desk.views import judge as judging
from newsift.statistics.labels import DECODER
from tests.newsift.cli.labels.at_terminal import AtTerminal
from tests.newsift.desk.client import call, open_desk, until
from tests.worker.judged import drawn, match
from tests.worker.kafka_side import LABELS, MATCHES, Kafka

NAMES = [str(n) for n in range(120)]
KEYS = {"y": "on", "n": "off", "u": "unsure"}


@pytest.fixture
def desk(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(judging_queues, "token_hex", lambda _: "")
    kafka.fill(MATCHES, [match(n, 0.9 - 0.001 * int(n)) for n in NAMES])
    with open_desk() as desk:
        yield desk


def does(desk: Desk, endpoint: Endpoint, **values: Any) -> Any:
    return call(desk, endpoint, **{"event": "storm", **values})


def asks(desk: Desk, by: str = "ann", kind: str = "certify") -> Any:
    until(lambda: not does(desk, judging.question, by=by, kind=kind)["drawing"])
    return does(desk, judging.question, by=by, kind=kind)


def says(desk: Desk, state: Any, verdict: str, by: str = "ann", kind: str = "certify") -> Any:
    post = {"platform": "x", "id": state["question"]["id"], "verdict": verdict}
    values = {"by": by, "kind": kind, "queue": state["queue"]} | post
    return does(desk, judging.answer, **values)


def said(kafka: Kafka, by: str) -> list[tuple[list[str], bytes | None]]:
    """What one person's records hold, but for who that is, and when."""
    result = [record for record in kafka.records(LABELS) if json.loads(record.key)[3] == by]
    assert {str(record.headers) for record in result} <= {"[('schema', b'newsift.label/1')]"}
    return [(json.loads(r.key)[:3], r.value and _unsigned(r.value, by)) for r in result]


def _unsigned(value: bytes, by: str) -> bytes:
    label = DECODER.decode(value)
    assert (label.value, label.by) == (value, by)
    return value.replace(label.at.encode(), b"AT").replace(b'"by":"%s"' % by.encode(), b'"by":""')


@pytest.mark.parametrize("kind", ["certify", "learn"])
def test_the_page_and_the_terminal_publish_the_same_records(
    kafka: Kafka, desk: Desk, kind: str
) -> None:
    pressed = "ynuzyyzzyynu" if kind == "learn" else "yyzyyyzzyyyy"
    with AtTerminal("labels", "ask", "storm", "--by", "ben", "--queue", kind) as terminal:
        for key in pressed:
            terminal.hears("[q] quit")
            terminal.press(key)
        terminal.hears("[q] quit")
        terminal.press("q")
        assert terminal.ends() == 0
    state = asks(desk, kind=kind)
    for key in pressed:
        if key == "z":
            undo = {"queue": state["queue"], "step": state["undo"]["step"]}
            state = does(desk, judging.undo, by="ann", kind=kind, **undo)
        else:
            state = says(desk, state, KEYS[key], kind=kind)
    assert len(said(kafka, "ann")) == len(pressed)
    assert said(kafka, "ann") == said(kafka, "ben")


def test_the_desk_decides_how_a_post_was_drawn(desk: Desk, kafka: Kafka) -> None:
    state = asks(desk)
    post = {"platform": "x", "id": state["question"]["id"], "verdict": "on"}
    values = {"by": "ann", "kind": "certify", "queue": state["queue"]} | post
    does(desk, judging.answer, **values, drawn="given", probability=1.0, score=0.1)
    (record,) = kafka.records(LABELS)
    label = DECODER.decode(record.value)
    assert (label.drawn, label.probability) == ("certify", 0.5 / 25)
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
        ({"event": "é" * 121}, "event: give a name"),
        ({"by": "x" * 241}, "by: give a name"),
        ({"kind": "values"}, "kind: Invalid enum value"),
    ],
)
def test_invalid_names_are_refused(desk: Desk, values: Any, answer: str) -> None:
    with pytest.raises(InputError, match=answer):
        does(desk, judging.question, **{"by": "ann", **values})
