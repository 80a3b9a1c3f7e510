"""What is wrong with the posts: they fit nowhere, are not posts, or are strange."""

import json
from collections import Counter

import pytest
from kafka.structs import OffsetAndMetadata

from tests.broker.clients import admin, read_to_end
from tests.faults.injected_faults import INFINITE, UNBEARABLE, UNLUCKY
from tests.faults.messages import ODD_TEXTS, POISON
from tests.faults.story import Story

READERS = pytest.mark.parametrize("reader", ["skim", "posts"])  # methods of the encoder
TO_BE_READ = "storm flood river city"


@READERS
def test_04_no_memory(story: Story, reader: str) -> None:
    """One post does not fit into memory; it becomes a dead letter, and the others are processed."""
    story.posts(20)
    story.post(f"{TO_BE_READ} {UNBEARABLE}", "out_of_memory")
    story.posts(20)
    worker = story.worker(room=2, reader=reader)
    story.nothing_lost()
    assert {"memory", UNBEARABLE} <= set(worker.proofs)


@READERS
def test_05_no_number(story: Story, reader: str) -> None:
    """A post without a finite embedding becomes a dead letter; its neighbours are processed."""
    story.posts(20)
    story.post(f"{TO_BE_READ} {INFINITE}", "not_finite")
    story.posts(20)
    story.post(f"{TO_BE_READ} {UNLUCKY}", "failed")
    story.posts(20)
    worker = story.worker(infinite=True, unlucky=True, reader=reader)
    story.nothing_lost()
    assert set(worker.proofs) == {INFINITE, UNLUCKY}


def test_06_poison(story: Story) -> None:
    """Each message that is not a post becomes a dead letter with its reason."""
    story.posts(10)
    for reason, value in POISON:
        story.message(value, reason)
    story.posts(10)
    story.worker()
    verdict = story.nothing_lost()
    story.events += len(POISON)
    assert (verdict.letters, verdict.duplicates) == (len(POISON), 0)


def test_07_odd_texts(story: Story) -> None:
    """The worker accepts unusual texts: empty ones, only emoji, right to left, very long ones."""
    story.posts(10)
    for text in ODD_TEXTS:
        story.post(text)
    story.posts(10)
    story.worker()
    verdict = story.nothing_lost()
    story.events += len(ODD_TEXTS)
    assert (verdict.letters, verdict.duplicates) == (0, 0)


def test_19_delivered_again(story: Story) -> None:
    """A producer writes every post twice and a worker reads all twice; each match keeps its id."""
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
