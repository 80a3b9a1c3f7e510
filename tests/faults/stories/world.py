"""What happens around the worker: to the broker, the network, the clock and the disk."""

import time

from tests.broker.kafka import answers
from tests.faults.story import ONE_CRASH, Story, Tell


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


STORIES: dict[str, Tell] = {
    "10 broker restarted": the_broker_restarts,
}
