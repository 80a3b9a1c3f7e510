import pytest

from tests.faults.story import Story


def test_a_worker_that_commits_too_early_is_detected(story: Story) -> None:
    story.posts(150)
    worker = story.worker(at="decoded", nth=6, do="kill", early=True)
    assert worker.ended() == -9, worker.output
    with pytest.raises(AssertionError, match="missing: the match of"):
        story.crashed()
