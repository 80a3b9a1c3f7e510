import json
from collections.abc import Callable
from functools import partial
from unittest.mock import Mock

import pytest

from tests.broker.clients import until
from tests.broker.conftest import ASKED
from tests.broker.record_batches import CODECS, PACK, record, sealed
from tests.hostile.attack import attacked, headers
from tests.hostile.batches import plant
from tests.hostile.conftest import waits_long
from tests.hostile.costly_posts import SHAPES, marks, ordinary
from tests.hostile.target import ARTICLE, Target, post, seed
from tests.worker.small_encoder import Mail, seed_set, small_encoder
from worker.match.pipeline import Pipeline

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


def test_a_repeated_text_is_embedded_and_explained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    enc = small_encoder()
    posts, contributions = Mock(wraps=enc.posts), Mock(wraps=enc.contributions)
    monkeypatch.setattr(enc, "posts", posts)
    monkeypatch.setattr(enc, "contributions", contributions)
    texts = ["storm flood river city", "music", *["storm flood river city"] * 3]
    messages = [Mail(post(f"{n}", text), offset=n) for n, text in enumerate(texts)]
    assert Pipeline(enc).run(messages, seed_set(), str).matched == 4
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


def test_too_many_marks_are_refused(target: Target) -> None:
    """8,192 characters took a third of a second each, and held every other thread up."""
    with attacked(target) as attack:
        attack.posts([post(str(n), marks(4095)) for n in range(300)])
    attack.refused("limits.marks", 300)


@pytest.mark.parametrize("name", ARTICLES)
def test_an_article_costs_no_more_than_a_few_ordinary_ones(target: Target, name: str) -> None:
    def cost(text: str, is_there: Callable[[], object]) -> float:
        with attacked(target) as attack:
            target.write("seeds", [seed(text)], key=b"article")
            until(is_there)
        target.forget(b"article")
        return attack.cpu_s

    ordinary = cost("the cat and a game of music. " * 3_000, lambda: target.live("article"))
    there = (
        (lambda: "limits.marks" in target.refused("article"))
        if name == "marks"
        else (lambda: target.live("article") or target.refused("article"))
    )
    assert cost(ARTICLES[name](), there) < 6 * ordinary + 0.5


@waits_long
def test_a_post_that_reaches_20000_seeds_names_the_best(own_target: Target) -> None:
    """4,096 posts that each reach 20,000 seeds: the best are named, all are counted."""
    target = own_target
    count = 20_000
    words = ARTICLE.split()
    with attacked(target):
        target.keyed(
            "seeds",
            (
                (b"low-%d" % n, seed(f"{words[n % 5]} {words[n % 3]} {n}", threshold=1e-6))
                for n in range(count)
            ),
        )
        until(lambda: len(target.seeds()["live"]) == count + 1)
    with attacked(target) as attack:
        attack.posts([post(f"low-{n}", ARTICLE) for n in range(4096)])
    first = next(r for r in target.matches.look() if r.key == b"low-0")
    row = json.loads(first.value)
    assert len(row["matches"]) == 10
    assert row["matched"] > count // 2


ZSTD = CODECS["zstd"]
DAMAGED = sealed(record(0, 0, b"any", post("inside", "storm")), 0, 0, 1)[:-1] + b"x"
takes_damage = pytest.mark.skipif(ASKED, reason="Apache Kafka takes no damaged batch")


@takes_damage
def test_a_damaged_batch_among_the_posts_is_one_dead_letter(target: Target) -> None:
    with attacked(target) as attack:
        plant(target.server, target.topics["posts"], DAMAGED)
    (letter,) = attack.refused("bad_batch")
    offset = headers(letter)["source"].rsplit("-", 1)[1]
    assert (letter.value, headers(letter)["offsets"]) == (None, f"{offset}-{offset}")


@takes_damage
def test_a_damaged_batch_among_the_seeds_is_skipped(target: Target) -> None:
    with attacked(target):
        plant(target.server, target.topics["seeds"], DAMAGED)
        target.write("seeds", [b'{"text": "a game of cat music"}'], key=b"after")
        until(partial(target.live, "flood", "after"))
    target.forget(b"after")


def test_a_batch_of_the_largest_size_is_read(target: Target) -> None:
    posts = [post(str(n), "cat " * 250_000) for n in range(31)]
    body = b"".join(record(0, n, b"any", value) for n, value in enumerate(posts))
    with attacked(target) as attack:
        plant(target.server, target.topics["posts"], sealed(PACK[ZSTD](body), ZSTD, 0, 31))
    assert attack.letters == []


@pytest.mark.skipif(ASKED, reason="Apache Kafka takes no such timestamp")
def test_any_timestamp_is_processed(target: Target) -> None:
    with attacked(target) as attack:
        for at in (-1, 0, 2**63 - 1, -(2**63)):
            for value in (post(str(at), "storm flood"), b"{"):
                times = {"first_timestamp": at, "max_timestamp": at}
                data = sealed(record(0, 0, b"any", value), 0, 0, 1, **times)
                plant(target.server, target.topics["posts"], data)
        until(lambda: len(attack.letters) == 4)
