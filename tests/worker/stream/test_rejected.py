"""The bytes of values that the dead letters of one record batch carry."""

from worker.stream.rejected import MOST_BATCHES, RejectedBytes


def test_a_batch_carries_no_more_than_the_limit_whoever_else_is_under_way() -> None:
    left = RejectedBytes(10)
    left.note("tweets", 0, 5, 9, 11)
    left.note("tweets", 1, 5, 9, 11)
    assert [left.take(1, "tweets", 0, offset, 4) for offset in (5, 6, 7)] == [True, True, False]
    assert left.take(1, "tweets", 0, 8, 2)  # what fits still fits
    assert left.take(1, "tweets", 1, 7, 10)
    assert left.take(1, "tweets", 0, 10, 99)  # another batch, which was not noted
    assert left.take(1, "other", 0, 5, 99)


def test_a_batch_that_cannot_exceed_the_limit_is_not_remembered() -> None:
    left = RejectedBytes(10)
    left.note("tweets", 0, 5, 9, 10)
    assert all(left.take(1, "tweets", 0, offset, 10) for offset in range(5, 10))


def test_fetched_again_it_keeps_its_count_and_a_new_assignment_begins_again() -> None:
    left = RejectedBytes(10)
    left.note("tweets", 0, 5, 9, 11)
    assert left.take(1, "tweets", 0, 5, 10)
    left.note("tweets", 0, 5, 9, 11)
    assert not left.take(1, "tweets", 0, 6, 1)
    assert left.take(2, "tweets", 0, 5, 10)
    assert not left.take(2, "tweets", 0, 6, 1)


def test_of_a_topic_made_again_the_newest_batch_counts() -> None:
    left = RejectedBytes(10)
    left.note("tweets", 0, 0, 9, 11)
    assert left.take(1, "tweets", 0, 3, 10)
    left.note("tweets", 0, 0, 4, 11)
    assert left.take(1, "tweets", 0, 3, 10)


def test_memory_is_bounded() -> None:
    left = RejectedBytes(10)
    for first in range(2 * MOST_BATCHES):
        left.note("tweets", 0, first, first, 11)
    assert len(left._left) == MOST_BATCHES
