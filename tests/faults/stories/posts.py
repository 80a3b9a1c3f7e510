"""What is wrong with the posts: they fit nowhere, are no posts, or are strange."""

from tests.faults.crashing import INFINITE, UNBEARABLE
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
    """A post whose embedding is no number is a dead letter, and its neighbours go on."""
    story.posts(20)
    story.post(f"the river is {INFINITE}", "not_finite")
    story.posts(20)
    worker = story.worker(infinite=True)
    story.nothing_lost()
    assert set(worker.proofs) == {INFINITE}


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


STORIES: dict[str, Tell] = {
    "4 out of memory": no_memory,
    "5 an embedding that is NaN": no_number,
    "6 poison": poison,
    "7 odd texts": odd_texts,
}
