"""What a byte of a stranger costs the worker's core: no more than a few of ordinary text."""

from collections.abc import Callable, Sequence
from time import process_time
from unittest.mock import Mock

import pytest

from tests.hostile.costly_posts import HOSTS, SHAPES, marks, ordinary, post
from tests.worker.small_encoder import ControlTopic, Mail, seed_set, small_encoder, value
from worker.links import canonical_link
from worker.match.pipeline import Outcome, Pipeline
from worker.posts.read import Reason
from worker.seeds.automatic import ThresholdRules
from worker.seeds.embedder import SeedEmbedder

A_FEW = 6  # bytes of ordinary posts, in the core alone
SLACK_S = 0.1  # for what else the machine does
LARGE = (4, 900_000)  # so many posts of so many bytes
MANY = (200, 8_300)


def read(posts: Sequence[bytes]) -> tuple[Outcome, float]:
    """What comes of posts, and the seconds of CPU that they take."""
    mails = [Mail(each, offset=number) for number, each in enumerate(posts)]
    seeds = seed_set(url="https://bücher.example/a")
    pipeline, began = Pipeline(small_encoder()), process_time()
    return pipeline.run(mails, seeds, str), process_time() - began


@pytest.fixture(scope="module")
def everyday() -> float:
    """Seconds for each byte of ordinary posts."""
    count, size = MANY
    rounds = [[ordinary(size - n - first) for n in range(count)] for first in (0, 1000, 2000)]
    return min(read(posts)[1] for posts in rounds) / count / size


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how_many", [LARGE, MANY], ids=["large", "many"])
def test_a_hostile_byte_costs_no_more_than_a_few_ordinary_ones(
    everyday: float, shape: str, how_many: tuple[int, int]
) -> None:
    count, size = how_many
    limit, spent = A_FEW * everyday * count * size + SLACK_S, list[float]()
    while len(spent) < 3 and (not spent or min(spent) >= limit):  # the machine has other work too
        first = size - len(spent) * count  # what is known already costs nothing
        values = [SHAPES[shape](first - n) for n in range(count)]
        assert 0.5 * size < len(values[0]) < 1.1 * size
        spent.append(read(values)[1])
    assert min(spent) < limit


@pytest.mark.parametrize("host", ["han", "ligatures", "marks"])
def test_a_host_that_cannot_be_one_costs_no_square_of_its_length(host: str) -> None:
    """Such as those in a feed, each of which took 9 ms."""

    def cost(make: Callable[[int], str], first: int) -> float:
        addresses = [f"http://{make(n)}/{n}" for n in range(first, first + 200)]
        began = process_time()
        assert {canonical_link(each) is None for each in addresses} == {make is HOSTS[host]}
        return process_time() - began

    firsts = range(0, 600, 200)
    plain = min(cost(lambda n: f"{host}{n}.example", first) for first in firsts)
    assert min(cost(HOSTS[host], first) for first in firsts) < 100 * plain + 0.02


def test_too_many_marks_are_refused() -> None:
    """8,192 characters took a third of a second each, and held every other thread up."""
    outcome, _ = read([post(str(n), marks(4095)) for n in range(300)])
    assert outcome.rejected == {Reason.MARKS: 300}


def test_a_repeated_text_is_embedded_and_explained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    enc = small_encoder()
    posts, contributions = Mock(wraps=enc.posts), Mock(wraps=enc.contributions)
    monkeypatch.setattr(enc, "posts", posts)
    monkeypatch.setattr(enc, "contributions", contributions)
    texts = ["storm flood river city", "music", *["storm flood river city"] * 3]
    assert read([post(f"{n}", text) for n, text in enumerate(texts)])[0].matched == 4
    assert [[*call.args[0]] for call in posts.call_args_list] == [texts[:2]]
    pairs = [pair for call in contributions.call_args_list for pair in call.args[2]]
    assert len(pairs) == len(set(pairs)) > 0


ARTICLES: dict[str, Callable[[], str]] = {
    "t": lambda: "t" * 24_000 + "/",
    "ht": lambda: "ht" * 45_000 + "…",
    "dots": lambda: "a." * 45_000 + "/",
    "word": lambda: "жщ" * 45_000,
    "emoji": lambda: "🌪" * 22_000,
    "marks": lambda: marks(20_000),
}


@pytest.mark.parametrize("name", ARTICLES)
def test_an_article_costs_no_more_than_a_few_ordinary_ones(name: str) -> None:
    def cost(text: str) -> float:
        topic, embedder = ControlTopic(), SeedEmbedder(small_encoder(), ThresholdRules(0.01, 0.4))
        began = process_time()
        topic.put(b"article", value(text=text))
        seeds = embedder.make(topic.snapshot())
        spent = process_time() - began
        assert [each.id for each in (*seeds.seeds, *seeds.refused)] == ["article"]
        assert ("limits.marks" in "".join(each.reason for each in seeds.refused)) == (
            "\u0316" in text
        )
        return spent

    everyday = cost("the cat and a game of music. " * 3_000)
    assert cost(ARTICLES[name]()) < 6 * everyday + 0.5
