"""Measures are kept while the control topic stands, whatever other threads ask for."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from newsift.desk.matches import MatchStore
from newsift.desk.scoring import MOST_MEASURES, Scores
from newsift.operations.model_context import ModelContext
from tests.newsift.desk.scene import EVENT, FixedModel, seeds_of, view_of


@pytest.fixture
def _frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def scores_of(teacher: ModelContext, events: int = 1) -> tuple[Scores, FixedModel]:
    names = [EVENT, *(f"event-{n}" for n in range(1, events))]
    records = {name: {"text": "storm flood river city", "event": name} for name in names}
    model = FixedModel(teacher, view_of(teacher, records))  # type: ignore[arg-type]
    return Scores(MatchStore(teacher.config), model), model


@pytest.mark.usefixtures("_frequent_switches")
def test_threads_that_ask_for_more_events_than_are_kept_each_get_their_own(
    teacher: ModelContext,
) -> None:
    scores, _ = scores_of(teacher, MOST_MEASURES + 16)
    names = [f"event-{n}" for n in range(1, MOST_MEASURES + 16)] * 4
    with ThreadPoolExecutor(8) as pool:
        events = [measure.event.name for measure in pool.map(scores.measure, names)]
    assert events == names


def test_a_measure_is_the_same_object_until_the_control_topic_changes(
    teacher: ModelContext,
) -> None:
    scores, model = scores_of(teacher)
    first = scores.measure(EVENT)
    assert scores.measure(EVENT) is first
    model.current_view = view_of(teacher, seeds_of(threshold=0.5))
    assert scores.measure(EVENT) is not first
    assert scores.measure(EVENT).cuts.tolist() == [0.5, 0.5]
