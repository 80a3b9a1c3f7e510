"""Profiles as control records: there and back, and every refusal with its reason."""

import contextlib
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError
from tests.worker.learned import MADE, profile, profile_value
from tests.worker.small import ARTICLES, value
from worker.config import Limits
from worker.seeds.profile import Profile, read_record
from worker.seeds.record import RefusedSeed, Seed, read_seed

SEEDS = {name: ARTICLES[name] for name in ("flood", "raid")}
KEY = "profile|stürm".encode()
RECORD = profile("stürm", SEEDS)
PROMISE = {"precision": 0.8, "confidence": 0.9}


def read(key: bytes = KEY, **changes: Any) -> Profile:
    found = read_record(key, value(**RECORD | changes))
    assert isinstance(found, Profile)
    return found


def test_a_record_with_every_key() -> None:
    found = read(threshold=0.4, promise=PROMISE, before=[RECORD], other="ignored")
    assert (found.id, found.event, found.title) == ("profile|stürm", "stürm", "")
    assert found.seeds == RECORD["seeds"]
    assert (found.model, found.threshold, found.promise) == (RECORD["model"], 0.4, PROMISE)
    assert (found.made, found.before) == (MADE, (RECORD,))
    assert found.vector.encoded() == RECORD["vectors"] == found.vectors
    assert found.version == hashlib.sha256(RECORD["vectors"].encode()).hexdigest()[:12]


def test_what_is_absent_or_null() -> None:
    bare = {name: RECORD[name] for name in ("event", "vectors", "seeds", "model")}
    found = read_record(KEY, value(**bare, threshold=None, promise=None, made=None, before=None))
    assert found == read_record(KEY, value(**bare)) == Profile(**bare)
    assert read_record(KEY, None) is None


def test_its_record_says_the_same() -> None:
    for found in (read(), read(threshold=0.4, promise=PROMISE, before=[RECORD])):
        assert read_record(KEY, found.value()) == found
    assert json.loads(read().value()) == RECORD


def test_versions_before_it() -> None:
    found, versions = None, [profile("stürm", {name: text}) for name, text in ARTICLES.items()]
    for record in [*versions, RECORD]:
        before = found.history() if found else ()
        found = Profile(**{**record, "before": before})
    assert found is not None
    kept = [{name: part for name, part in row.items() if name != "before"} for row in versions]
    assert list(found.before) == kept[:0:-1]
    for record in versions[:0:-1]:
        found = found.previous()
        assert found is not None
        assert found.vectors == record["vectors"]
    assert found.previous() is None


def test_a_value_drops_old_versions_where_there_is_no_room() -> None:
    found = read(before=[RECORD, RECORD, RECORD])
    sizes = [len(read(before=[RECORD] * count).value()) for count in range(4)]
    for count, size in enumerate(sizes):
        assert found.value(Limits(article_bytes=size)) == read(before=[RECORD] * count).value()
        less = found.value(Limits(article_bytes=size - 1)) if count else b""
        assert len(less) == (sizes[count - 1] if count else 0)
    with pytest.raises(InputError, match=r"limits\.article_bytes"):
        found.value(Limits(article_bytes=sizes[0] - 1))


def test_the_prefix_belongs_to_profiles() -> None:
    found = read_record(b"profile|a", value(text="The dam broke."))
    assert found == RefusedSeed(
        "profile|a", "key: profile| begins the ids of profiles; give the seed another id"
    )
    assert read_seed(b"profile|a", value(text="The dam broke.")) == found
    assert isinstance(read_record(b"profile", value(text="The dam broke.")), Seed)
    assert isinstance(read_record(b"Profile|a", value(text="The dam broke.")), Seed)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"event": "other"}, "event: 'other' is not that of the key, 'profile|stürm'"),
        ({"event": None}, "event: '' is empty"),
        ({"event": 7}, "event: a number, expected a string"),
        ({"event": "ü" * 121}, "event: 242 bytes, 240 are allowed"),
        ({"event": "\ud800"}, "event: holds a lone surrogate"),
        ({"vectors": None}, "vectors: no safetensors"),
        ({"vectors": 7}, "vectors: a number, expected a string"),
        ({"vectors": "x"}, "vectors: no base64"),
        ({"vectors": "\ud800"}, "vectors: holds a lone surrogate"),
        ({"vectors": "A" * 300_000}, "vectors: 300000 characters, 262144 are allowed"),
        ({"vectors": "A" * 10_000_000}, "limits.article_bytes: 1000"),
        ({"seeds": None}, "seeds: names none"),
        ({"seeds": {}}, "seeds: names none"),
        ({"seeds": ["flood"]}, "seeds: an array, expected an object"),
        ({"seeds": {"flood": 7}}, "seeds: a version is no string"),
        ({"seeds": {"flood": None}}, "seeds: a version is no string"),
        ({"model": 7}, "model: a number"),
        ({"model": None}, "model: missing"),
        ({"model": "m" * 257}, "model: 257 characters"),
        ({"threshold": 0}, "threshold: a whole number is not above 0"),
        ({"threshold": float("nan")}, "threshold: nan is not"),
        ({"threshold": "0.5"}, "threshold: a string"),
        ({"promise": 0.8}, "promise: a number, expected an object"),
        ({"made": []}, "made: an array, expected an object"),
        ({"before": {}}, "before: an object, expected an array"),
        ({"before": [7]}, "before: a version is no object"),
        ({"before": [{}, {}, {}, {}]}, "before: 4 versions, 3 are allowed"),
    ],
)  # fmt: skip
def test_a_refused_profile_says_why_in_one_line(changes: dict[str, Any], reason: str) -> None:
    found = read_record(KEY, value(**RECORD | changes))
    assert isinstance(found, RefusedSeed)
    assert found.id == "profile|stürm"
    assert found.reason.startswith(reason)
    assert len(found.reason) < 200
    assert found.reason.isprintable()


@pytest.mark.parametrize("key", [b"profile|", b"profile|\xff", b"profile|" + b"e" * 249])
def test_a_refused_key(key: bytes) -> None:
    event = key.removeprefix(b"profile|").decode(errors="replace")
    found = read_record(key, profile_value(event, SEEDS))
    assert isinstance(found, RefusedSeed)
    assert found.reason.startswith(("event: ", "key: "))


junk = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=9) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*RECORD, "threshold", "promise"]), junk))
def test_no_values_make_it_raise(changes: dict[str, Any]) -> None:
    found = read_record(KEY, value(**RECORD | changes))
    assert isinstance(found, Profile | RefusedSeed)
    if isinstance(found, Profile):
        again = read_record(KEY, found.value())
        assert isinstance(again, Profile)
        assert again.version == found.version
        with contextlib.suppress(InputError):
            found.previous()
