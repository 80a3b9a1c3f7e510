"""Workers with instance ids, of which one restarts, dies, is doubled or comes."""

import time

from tests.broker.kafka import answers
from tests.faults.process import Worker
from tests.faults.story import ONE_CRASH, Story

SESSION_S = 20  # longer than a restart


def member(story: Story, name: str, **fault: str | int) -> Worker:
    """A worker with this instance id."""
    settings = story.settings()
    settings["kafka"] |= {"instance_id": name, "session_timeout_s": SESSION_S}
    return story.worker(settings, **fault)


def test_26_killed_while_rolling(story: Story) -> None:
    """As one worker restarts under its id, the other is killed, and then the first one too."""
    first, second = (member(story, name) for name in ("one", "two"))
    for worker in (first, second):
        worker.ready()
    story.posts(60)
    assert first.terminate() == 0, first.output
    second.kill()
    story.events += 1
    story.crashed()
    story.posts(60)
    again = member(story, "one", at="encoded", do="kill")
    assert again.ended() == -9, again.output
    story.crashed()
    workers = [member(story, name) for name in ("one", "two")]
    story.nothing_lost()
    assert [worker.terminate() for worker in workers] == [0, 0]


def test_27_two_with_one_id(story: Story) -> None:
    """A second worker takes an instance id over; the first ends with one line and exit code 1."""
    first = member(story, "one")
    story.posts(60)
    story.until(lambda: sum(story.committed().values()) > 0)
    second = member(story, "one")
    story.posts(60)
    first.refused("newsift: kafka.instance_id: ", code=1)
    story.events += 1
    story.crashed()
    story.nothing_lost()
    assert second.terminate() == 0, second.output


def test_28_the_broker_is_lost_as_a_worker_joins(story: Story) -> None:
    """The broker stops for two seconds while a second worker joins; both share the posts then."""
    workers = [member(story, "one")]
    story.posts(60)
    story.until(lambda: sum(story.committed().values()) > 0)
    workers.append(member(story, "two"))
    workers[1].ready()
    story.server.stop()
    assert not answers(story.server.address)
    story.events += 1
    story.allowed_duplicates += ONE_CRASH
    time.sleep(2)
    story.server.start()
    story.posts(60)
    story.until(lambda: sorted(len(worker.partitions()) for worker in workers) == [1, 2])
    story.nothing_lost()
    assert [worker.terminate() for worker in workers] == [0, 0]
