"""What happens to the worker's own process: it dies, fails, stands still, or is slow."""

import signal
from functools import partial
from typing import Any

from tests.faults.story import ONE_CRASH, Story
from worker.crashpoint import BOUNDARIES


def test_01_killed_at_each_boundary(story: Story) -> None:
    """Kill -9 ends the worker at each durable boundary in turn."""
    for boundary in BOUNDARIES:
        story.posts(40)
        story.dies(boundary, nth=2)
    story.worker()
    story.nothing_lost()


def test_02_ended_in_the_middle_of_a_batch(story: Story) -> None:
    """A worker that receives SIGTERM finishes and commits its batch, and repeats nothing."""
    story.posts(60)
    worker = story.worker(at="encoded", nth=2, do="term")
    assert worker.ended() == 0, worker.output
    assert worker.proofs == ["term at encoded"]
    assert sum(story.committed().values()) > 0
    story.promises_kept()
    story.worker()
    assert story.nothing_lost().duplicates == 0


def test_03_an_unexpected_error(story: Story) -> None:
    """An unexpected error ends the worker with exit code 1; it commits no unfinished post."""
    story.posts(30)
    story.posts(30)
    failing: dict[str, dict[str, Any]] = {
        "raise at decoded": {"at": "decoded", "nth": 2, "do": "raise"},
        "raise at encoded": {"at": "encoded", "do": "raise"},
        "raise at matched": {"at": "matched", "do": "raise"},
    }
    for proof, fault in failing.items():
        worker = story.worker(**fault)
        worker.refused("newsift: InjectedError: ", code=1)
        assert proof in worker.proofs
        story.crashed()
    story.worker()
    story.nothing_lost()


def test_11_one_of_three_is_killed_again_and_again(story: Story) -> None:
    """Three workers share the posts; one is killed three times, and another replaces it."""
    for _ in range(3):
        story.worker()
    for worker in story.workers[:3]:
        worker.ready()
    for killed in range(3):
        story.posts(150)
        committed = sum(story.committed().values())
        story.until(partial(lambda before: sum(story.committed().values()) > before, committed))
        story.workers[killed].kill()
        assert story.workers[killed].ended() == -9
        story.events += 1
        story.worker()
        story.crashed()
        story.posts(50)
    story.nothing_lost()


def test_12_stopped_past_its_session(story: Story) -> None:
    """A worker stops in mid-batch, loses its partitions, resumes, and commits too late."""
    zombie = story.worker(at="encoded", nth=2, do="stop")
    story.posts(90)
    story.until(lambda: zombie.proofs)
    other = story.worker()
    story.drained()
    zombie.signal(signal.SIGCONT)
    story.allowed_duplicates += ONE_CRASH
    story.posts(60)
    story.nothing_lost()
    assert (zombie.terminate(), other.terminate()) == (0, 0), zombie.output
    assert story.committed() == story.ends()


def test_13_slower_than_the_poll_interval(story: Story) -> None:
    """A batch takes longer than the poll interval; the worker stays a member of its group."""
    story.posts(30)
    first = story.worker()
    story.drained()  # aiokafka keeps no watch over polls where the group has no offsets yet
    assert first.terminate() == 0
    story.posts(60)
    times = 2 if story.brief else 6
    worker = story.worker(at="decoded", do="sleep", times=times, slow_s=4.0, poll_s=1.5)
    assert story.nothing_lost().duplicates == 0
    assert worker.proofs == ["sleep at decoded"] * times
    assert worker.output.count("partitions of") == 1, worker.output
    assert worker.terminate() == 0, worker.output
