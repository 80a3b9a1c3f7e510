"""What is wrong with the posts: they fit nowhere, are no posts, or are strange."""

import json
from collections import Counter

from kafka.structs import OffsetAndMetadata

from tests.broker.clients import admin, read_to_end
from tests.faults.crashing import INFINITE, UNBEARABLE, UNLUCKY
from tests.faults.messages import ODD_TEXTS, POISON
from tests.faults.story import Story, Tell


def no_memory(story: Story) -> None:
    """Memory for two posts at once, and one post that never fits: that one is a dead letter."""
    story.posts(20)
    story.post(f"the flood is {UNBEARABLE}", "out_of_memory")
    story.posts(20)
    worker = story.worker(room=2)
    story.nothing_lost()
    assert {"memory", UNBEARABLE} <= set(worker.proofs)


def no_number(story: Story) -> None:
    """An embedding that is no number, or none at all: a dead letter each, and neighbours go on."""
    story.posts(20)
    story.post(f"the river is {INFINITE}", "not_finite")
    story.posts(20)
    story.post(f"the storm is {UNLUCKY}", "failed")
    story.posts(20)
    worker = story.worker(infinite=True, unlucky=True)
    story.nothing_lost()
    assert set(worker.proofs) == {INFINITE, UNLUCKY}


def poison(story: Story) -> None:
    """Messages that are no posts, each with its reason."""
    story.posts(10)
    for reason, value in POISON:
        story.message(value, reason)
    story.posts(10)
    story.worker()
    verdict = story.nothing_lost()
    story.events += len(POISON)
    assert (verdict.letters, verdict.duplicates) == (len(POISON), 0)


def odd_texts(story: Story) -> None:
    """Texts that are strange and yet posts: empty, all emoji, right to left, very long."""
    story.posts(10)
    for text in ODD_TEXTS:
        story.post(text)
    story.posts(10)
    story.worker()
    verdict = story.nothing_lost()
    story.events += len(ODD_TEXTS)
    assert (verdict.letters, verdict.duplicates) == (0, 0)


def delivered_again(story: Story) -> None:
    """All posts are written twice, and then all are read again: each match has the same id."""
    story.posts(40)
    story.again()
    worker = story.worker()
    first = story.nothing_lost()
    assert first.duplicates == 0
    assert worker.terminate() == 0
    with admin(story.server.address) as client:
        begin = {place: OffsetAndMetadata(0, "", -1) for place in story.places()}
        client.alter_group_offsets(story.group, begin)
    assert set(story.committed().values()) == {0}
    story.events += 2
    story.allowed_duplicates = first.matches
    story.worker()
    assert story.nothing_lost().duplicates == first.matches
    records = read_to_end(story.server.address, story.topics["matches"])
    ids = Counter(m["match_id"] for row in records for m in json.loads(row.value)["matches"])
    assert set(ids.values()) == {4}


STORIES: dict[str, Tell] = {
    "4 out of memory": no_memory,
    "5 an embedding that is NaN": no_number,
    "6 poison": poison,
    "7 odd texts": odd_texts,
    "19 delivered again": delivered_again,
}
