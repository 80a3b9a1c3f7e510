"""Profiles as control records, and event vectors."""

import base64
import hashlib
import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

from encoder import Embeddings
from encoder.errors import InputError, MismatchError
from encoder.score.lexical import SLOTS
from tests.worker.learned import MADE, profile, profile_value, vector_of
from tests.worker.small import ARTICLES, small_encoder, value
from worker.config.limits import Limits
from worker.seeds.profile import MOST_CHARS, MOST_WORDS, EventVector, Profile, read_record
from worker.seeds.record import RefusedSeed, Seed, read_seed

SEEDS = {name: ARTICLES[name] for name in ("flood", "raid")}
KEY = "profile|stürm".encode()
RECORD = profile("stürm", SEEDS)
PROMISE = {"precision": 0.8, "confidence": 0.9}


def read(key: bytes = KEY, **changes: Any) -> Profile:
    result = read_record(key, value(**RECORD | changes))
    assert isinstance(result, Profile)
    return result


def test_a_record_with_every_key_is_read_and_written() -> None:
    result = read(threshold=0.4, promise=PROMISE, before=[RECORD], other="ignored")
    assert (result.id, result.event, result.title) == ("profile|stürm", "stürm", "")
    assert result.seeds == RECORD["seeds"]
    assert (result.model, result.threshold, result.promise) == (RECORD["model"], 0.4, PROMISE)
    assert (result.made, result.before) == (MADE, (RECORD,))
    assert result.vector.encoded() == RECORD["vectors"] == result.vectors
    assert read_record(KEY, result.value()) == result
    assert json.loads(read().value()) == RECORD
    assert result.version == hashlib.sha256(RECORD["vectors"].encode()).hexdigest()[:12]


def test_optional_keys_may_be_absent_or_null() -> None:
    bare = {name: RECORD[name] for name in ("event", "vectors", "seeds", "model")}
    result = read_record(KEY, value(**bare, threshold=None, promise=None, made=None, before=None))
    assert result == read_record(KEY, value(**bare)) == Profile(**bare)
    assert read_record(KEY, None) is None


def test_the_last_three_versions_are_kept_and_restored() -> None:
    result, versions = None, [profile("stürm", {name: text}) for name, text in ARTICLES.items()]
    for record in [*versions, RECORD]:
        before = result.history() if result else ()
        result = Profile(**{**record, "before": before})
    assert result is not None
    earlier = [{name: part for name, part in row.items() if name != "before"} for row in versions]
    assert list(result.before) == earlier[:0:-1]
    for record in versions[:0:-1]:
        result = result.previous()
        assert result is not None
        assert result.vectors == record["vectors"]
    assert result.previous() is None


def test_old_versions_are_dropped_above_the_size_limit() -> None:
    result = read(before=[RECORD, RECORD, RECORD])
    sizes = [len(read(before=[RECORD] * count).value()) for count in range(4)]
    for count, size in enumerate(sizes):
        assert result.value(Limits(article_bytes=size)) == read(before=[RECORD] * count).value()
        less = result.value(Limits(article_bytes=size - 1)) if count else b""
        assert len(less) == (sizes[count - 1] if count else 0)
    with pytest.raises(InputError, match=r"limits\.article_bytes"):
        result.value(Limits(article_bytes=sizes[0] - 1))


def test_the_prefix_of_a_key_is_reserved_for_profiles() -> None:
    result = read_record(b"profile|a", value(text="The dam broke."))
    assert result == RefusedSeed(
        "profile|a", "key: profile| begins the ids of profiles; give the seed another id"
    )
    assert read_seed(b"profile|a", value(text="The dam broke.")) == result
    assert isinstance(read_record(b"profile", value(text="The dam broke.")), Seed)
    assert isinstance(read_record(b"Profile|a", value(text="The dam broke.")), Seed)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"event": "other"}, "event: 'other' is not that of the key, 'profile|stürm'"),
        ({"event": "ü" * 121}, "event: 242 bytes, 240 are allowed"),
        ({"event": "\ud800"}, "event: holds a lone surrogate"),
        ({"vectors": None}, "vectors: no safetensors"),
        ({"vectors": "x"}, "vectors: no base64"),
        ({"vectors": "A" * 300_000}, "vectors: 300000 characters, 262144 are allowed"),
        ({"vectors": "A" * 10_000_000}, "limits.article_bytes: 1000"),
        ({"seeds": ["flood"]}, "seeds: an array, expected an object"),
        ({"seeds": {"flood": 7}}, "seeds: a version is no string"),
        ({"model": None}, "model: missing"),
        ({"threshold": 0}, "threshold: a whole number is not above 0"),
        ({"threshold": float("nan")}, "threshold: nan is not"),
        ({"before": [{}, {}, {}, {}]}, "before: 4 versions, 3 are allowed"),
    ],
)  # fmt: skip
def test_a_bad_record_is_refused_with_its_reason(changes: dict[str, Any], reason: str) -> None:
    result = read_record(KEY, value(**RECORD | changes))
    assert isinstance(result, RefusedSeed)
    assert result.id == "profile|stürm"
    assert result.reason.startswith(reason)
    assert len(result.reason) < 200
    assert result.reason.isprintable()


@pytest.mark.parametrize("key", [b"profile|", b"profile|\xff", b"profile|" + b"e" * 249])
def test_a_bad_key_is_refused(key: bytes) -> None:
    event = key.removeprefix(b"profile|").decode(errors="replace")
    result = read_record(key, profile_value(event, SEEDS))
    assert isinstance(result, RefusedSeed)
    assert result.reason.startswith(("event: ", "key: "))


DIM = small_encoder().dim
POSTS = ["storm flood in the city", "a cat", "police fire", "", "music of the game", "??"]


def posts(mix: float = 0.6) -> Embeddings:
    return small_encoder(mix).posts(POSTS)


def event(mix: float = 0.6) -> EventVector:
    return vector_of([ARTICLES["flood"]], [ARTICLES["game"]], mix)


def parts(vector: EventVector) -> dict[str, NDArray[np.generic]]:
    return {"dense": vector.dense, "slots": vector.slots, "weights": vector.weights}


def encoded(**changed: NDArray[np.generic]) -> str:
    return base64.b64encode(save(parts(event()) | changed)).decode()


@pytest.mark.parametrize("mix", [0.0, 0.6])
def test_the_score_is_the_dot_product_with_the_vectors_of_posts(mix: float) -> None:
    vector = event(mix)
    assert (vector.weights < 0).any() == bool(mix)
    whole = np.zeros(DIM + SLOTS)
    whole[:DIM] = vector.dense
    whole[DIM + vector.slots] = vector.weights
    assert whole @ whole == pytest.approx(1, abs=1e-6)
    expected = posts(mix).as_vectors() @ whole
    np.testing.assert_allclose(vector.scores(posts(mix)), expected, atol=1e-6)
    row = vector.as_row(mix, small_encoder(mix).digest)
    np.testing.assert_allclose(posts(mix).similarity(row)[:, 0], expected, atol=1e-6)


def test_a_vector_survives_encoding() -> None:
    vector = event()
    again = EventVector.read(vector.encoded())
    for name, array in parts(vector).items():
        np.testing.assert_array_equal(parts(again)[name], array)
        assert not parts(again)[name].flags.writeable
        assert parts(again)[name].flags.aligned
    assert again.encoded() == vector.encoded()


def test_only_the_heaviest_words_are_kept() -> None:
    count = MOST_WORDS + 500
    weights = np.random.default_rng(7).normal(size=count).astype(np.float32)
    slots = np.arange(0, 20 * count, 20, dtype=np.int32)
    made = EventVector.of(np.zeros(DIM, np.float32), slots, weights)
    heavy = sorted(range(count), key=lambda i: -abs(weights[i]))[:MOST_WORDS]
    assert made.slots.tolist() == [20 * i for i in sorted(heavy)]
    assert len(made.encoded()) <= MOST_CHARS
    with pytest.raises(InputError, match="0 long"):
        EventVector.of(np.zeros(DIM, np.float32), slots, weights * 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("A" * (MOST_CHARS + 1), f"{MOST_CHARS + 1} characters, {MOST_CHARS} are allowed"),
        ("ü", "no base64"),
        ("AAA", "no base64"),
        (base64.b64encode(b"\xff" * 64).decode(), "no safetensors"),
        (base64.b64encode((2).to_bytes(8, "little") + b"{}").decode(), "dense is missing"),
        (encoded(dense=event().dense.astype(np.float64)), "dense is no flat array of float32"),
        (encoded(slots=event().slots.astype(np.int64)), "slots is no flat array of int32"),
        (encoded(weights=event().weights[1:]), "as many weights as slots"),
        (encoded(dense=np.zeros(2**13 + 1, np.float32)), "8193 axes"),
        (encoded(slots=event().slots * 0), "a slot stands twice"),
        (encoded(dense=np.full(DIM, np.nan, np.float32)), "nan long"),
        (encoded(dense=event().dense * 2), "together they have length 1"),
        (encoded(dense=event().dense * 0, weights=event().weights * 0), "0 long"),
    ],
)
def test_a_bad_vector_is_refused_with_its_reason(text: object, reason: str) -> None:
    with pytest.raises(InputError, match=f"^vectors: .*{reason}") as error:
        EventVector.read(text)
    assert len(str(error.value)) < 200
    assert str(error.value).isprintable()


def test_a_vector_of_another_model_is_refused() -> None:
    with pytest.raises(MismatchError, match="has words"):
        event().as_row(0, "")
    narrow = EventVector.of(event().dense[1:], event().slots, event().weights)
    with pytest.raises(MismatchError, match=f"{DIM - 1} axes"):
        narrow.scores(posts())
