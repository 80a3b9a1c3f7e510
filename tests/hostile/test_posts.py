"""Posts that cost more than their bytes: the neighbours are matched, and no one waits for them."""

import pytest

from tests.hostile.attack import attacked
from tests.hostile.shapes import SHAPES, marks, ordinary
from tests.hostile.target import Target, post

A_FEW = 4  # bytes of ordinary posts
SLACK_S = 0.3  # what an idle worker spends meanwhile
LARGE = (4, 900_000)  # so many posts of so many bytes
MANY = (200, 8_300)


@pytest.fixture(scope="module")
def everyday(shared_target: Target) -> float:
    count, size = MANY
    for _ in range(2):
        with attacked(shared_target) as attack:
            attack.posts([ordinary(size - n) for n in range(count)])
    return attack.cpu_s / (count * size)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how_many", [LARGE, MANY], ids=["large", "many"])
def test_a_hostile_byte_costs_no_more_than_a_few_ordinary_ones(
    target: Target, everyday: float, shape: str, how_many: tuple[int, int]
) -> None:
    count, size = how_many
    values = [SHAPES[shape](size - n) for n in range(count)]  # what is known already costs nothing
    assert 0.5 * size < len(values[0]) < 1.1 * size
    with attacked(target) as attack:
        attack.posts(values)
    assert attack.cpu_s < A_FEW * everyday * count * size + SLACK_S


def test_too_many_marks_are_refused(target: Target) -> None:
    """8,192 characters took a third of a second each, and held every other thread up."""
    with attacked(target) as attack:
        attack.posts([post(str(n), marks(4095)) for n in range(300)])
    attack.refused("limits.marks", 300)


def test_too_many_list_items_are_refused(target: Target) -> None:
    """18,000 references times 165,000 tweets in 999 KB ended every worker for good."""
    refs = ",".join(['{"type":"retweeted"}'] * 18_000)
    tweets = ",".join(["{}"] * 165_000)
    value = '{"data":{"id":"1","text":"storm","referenced_tweets":[%s]},"includes":{"tweets":[%s]}}'
    with attacked(target) as attack:
        attack.posts([(value % (refs, tweets)).encode()])
    attack.refused("limits.list_items")
