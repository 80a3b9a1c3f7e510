"""The harness is held against a worker that is broken on purpose: it must see what that loses."""

import pytest

from tests.faults.story import Story


def test_a_worker_that_commits_before_it_has_delivered_is_found_out(story: Story) -> None:
    story.posts(150)
    worker = story.worker(at="decoded", nth=6, do="kill", early=True)
    assert worker.ended() == -9, worker.said
    with pytest.raises(AssertionError, match="missing: the match of"):
        story.crashed()


def test_a_fault_that_never_comes_is_no_fault_survived(story: Story) -> None:
    story.posts(10)
    worker = story.worker(at="decoded", nth=1000, do="kill")
    story.nothing_lost()
    assert worker.proofs == []
    assert worker.terminate() == 0
