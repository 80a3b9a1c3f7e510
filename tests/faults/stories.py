"""The faults that the worker must survive, each as a story that reads from top to bottom.

A story ends with `nothing_lost`: every post is committed, and all that it must come to is there.
"""

import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType

from tests.broker.clients import admin, create
from tests.broker.kafka import answers
from tests.faults.crashing import INFINITE, UNBEARABLE, UNLUCKY
from tests.faults.messages import ODD_TEXTS, POISON
from tests.faults.process import Worker
from tests.faults.story import ONE_CRASH, PARTITIONS, Story
from worker.crashpoint import BOUNDARIES

Tell = Callable[[Story], None]


def killed_at_each_boundary(story: Story) -> None:
    """Kill -9 at every durable boundary in turn, in the middle of the work."""
    for boundary in BOUNDARIES:
        story.posts(40)
        story.dies(boundary, nth=2)
    story.worker()
    story.nothing_lost()


def ended_in_the_middle_of_a_batch(story: Story) -> None:
    """SIGTERM with a batch in flight: it is finished and committed, and nothing repeats."""
    story.posts(60)
    worker = story.worker(at="encoded", nth=2, do="term")
    assert worker.ended() == 0, worker.said
    assert worker.proofs == ["term at encoded"]
    assert sum(story.committed().values()) > 0
    story.promises_kept()
    story.worker()
    assert story.nothing_lost().duplicates == 0


def an_unexpected_error(story: Story) -> None:
    """An exception before, in and after the encoder: exit 1, one line, no commit past it."""
    story.posts(30)
    story.post(f"the storm is {UNLUCKY}")
    story.posts(30)
    failing: dict[str, dict[str, Any]] = {
        "raise at decoded": {"at": "decoded", "nth": 2, "do": "raise"},
        UNLUCKY: {"unlucky": True},
        "raise at matched": {"at": "matched", "do": "raise"},
    }
    for proof, fault in failing.items():
        worker = story.worker(**fault)
        assert worker.ended() == 1, worker.said
        assert proof in worker.proofs
        failed_in_one_line(worker)
        story.crashed()
    story.worker()
    story.nothing_lost()


def failed_in_one_line(worker: Worker) -> None:
    """The last line says what failed, and nothing shows a traceback."""
    assert worker.said.splitlines()[-1].startswith("newsift: InjectedError: "), worker.said
    assert "Traceback" not in worker.said
    assert worker.said.count("newsift: ") == 1


def no_memory_and_no_number(story: Story) -> None:
    """Memory for two posts at once, one that never fits, one whose embedding is no number."""
    story.posts(20)
    story.post(f"the flood is {UNBEARABLE}", "out_of_memory")
    story.post(f"the river is {INFINITE}", "not_finite")
    story.posts(20)
    worker = story.worker(room=2)
    story.nothing_lost()
    assert {"memory", UNBEARABLE, INFINITE} <= set(worker.proofs)


def poison_and_odd_texts(story: Story) -> None:
    """Messages that are no posts, each with its reason, and texts that are strange but posts."""
    story.posts(10)
    for reason, value in POISON:
        story.message(value, reason)
    for text in ODD_TEXTS:
        story.post(text)
    story.posts(10)
    story.worker()
    verdict = story.nothing_lost()
    story.events += len(POISON)
    assert (verdict.letters, verdict.duplicates) == (len(POISON), 0)


def dead_letters_have_nowhere_to_go(story: Story) -> None:
    """The topic of dead letters takes nothing for a while: a pause, and no commit past it."""
    _output_is_down(story, "rejected")


def matches_have_nowhere_to_go(story: Story) -> None:
    """The topic of matches takes nothing for a while: a pause, and no commit past it."""
    _output_is_down(story, "matches")


def _output_is_down(story: Story, kind: str) -> None:
    worker = story.worker()
    worker.ready()
    with admin(story.server.address) as client:
        client.delete_topics([story.topics[kind]])
    story.events += 1
    story.posts(30)
    story.message(b"{", "bad_json")
    story.posts(60)
    story.until(lambda: "pausing" in worker.said)
    time.sleep(1)  # whatever it does now, it has had the time to do it wrongly
    story.promises_kept()
    assert story.committed() != story.ends()
    create(story.server.address, story.topics[kind], PARTITIONS)
    story.allowed_duplicates += ONE_CRASH
    story.nothing_lost()
    assert worker.terminate() == 0, worker.said


def match_records_are_too_large(story: Story) -> None:
    """The topic of matches refuses records for their size: each becomes a dead letter."""
    story.worker().ready()
    set_up(story, "matches", "max.message.bytes", "300")
    story.posts(40, too_large=True)
    assert story.nothing_lost().letters > 0
    story.events += 1
    set_up(story, "matches", "max.message.bytes", "1048588")
    story.posts(20)
    assert story.nothing_lost().matches > 0


def set_up(story: Story, kind: str, key: str, value: str) -> None:
    """Give a topic of the story another setting."""
    resource = ConfigResource(ConfigResourceType.TOPIC, story.topics[kind], {key: value})
    with admin(story.server.address) as client:
        client.alter_configs([resource])


def the_broker_restarts(story: Story) -> None:
    """The broker goes away for some seconds, twice, and comes back with its data."""
    worker = story.worker()
    story.posts(60)
    for _ in range(2):
        story.until(lambda: sum(story.committed().values()) > 0)
        story.server.stop()
        assert not answers(story.server.address)
        story.events += 1
        time.sleep(2)
        assert worker.alive(), worker.said
        story.server.start()
        story.posts(60)
        story.allowed_duplicates += ONE_CRASH
    story.nothing_lost()
    assert worker.terminate() == 0


def committed_more(story: Story, before: int) -> bool:
    """Whether more is committed than before."""
    return sum(story.committed().values()) > before


def one_of_three_is_killed_again_and_again(story: Story, rounds: int = 3) -> None:
    """Three workers share the posts; now and then one is killed and another takes its place."""
    for _ in range(3):
        story.worker()
    for worker in story.workers[:3]:
        worker.ready()
    for killed in range(rounds):
        story.posts(150)
        committed = sum(story.committed().values())
        story.until(partial(committed_more, story, committed))
        story.workers[killed].kill()
        assert story.workers[killed].ended() == -9
        story.events += 1
        story.worker()
        story.crashed()
        story.posts(50)
    story.nothing_lost()


def stopped_past_its_session(story: Story) -> None:
    """A worker stands still with a batch in flight, is given up, and wakes: its commit is late."""
    zombie = story.worker(at="encoded", nth=2, do="stop")
    story.posts(90)
    story.until(lambda: zombie.proofs)
    other = story.worker()
    story.drained()
    zombie.signal(signal.SIGCONT)
    story.allowed_duplicates += ONE_CRASH
    story.posts(60)
    story.nothing_lost()
    assert (zombie.terminate(), other.terminate()) == (0, 0), zombie.said
    assert story.committed() == story.ends()


# The numbers are those of the list of faults that the project keeps.
DEATHS: dict[str, Tell] = {
    "1 kill -9 at each boundary": killed_at_each_boundary,
    "2 SIGTERM in mid-batch": ended_in_the_middle_of_a_batch,
    "3 unexpected error": an_unexpected_error,
    "11 three workers, kills": one_of_three_is_killed_again_and_again,
    "12 stopped, then awake": stopped_past_its_session,
}
TROUBLES: dict[str, Tell] = {
    "4, 5 out of memory, NaN": no_memory_and_no_number,
    "6, 7 poison, odd texts": poison_and_odd_texts,
    "8 dead letters down": dead_letters_have_nowhere_to_go,
    "9 matches down": matches_have_nowhere_to_go,
    "9 record too large": match_records_are_too_large,
    "10 broker restarted": the_broker_restarts,
}
STORIES = DEATHS | TROUBLES
