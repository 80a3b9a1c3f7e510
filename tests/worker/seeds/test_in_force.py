"""Profiles in force, by the records alone: judged against an obvious reading of the contract."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.learned import profile, profile_value, vector_of
from tests.worker.small import ARTICLES, same, small_encoder, value
from worker.config import Limits
from worker.seeds.background import sides_of
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.profile import Profile, read_record
from worker.seeds.set import NEVER, SeedBook, SeedSet, seed_set_digest
from worker.seeds.vectors import EventVector

KEY = b"profile|storm"
SEEDS = {name: ARTICLES[name] for name in ("flood", "raid")}
NARROW = EventVector.of(np.ones(3, np.float32), np.zeros(0, np.int32), np.zeros(0, np.float32))
Records = Mapping[bytes, bytes | None]


def records(**changes: Any) -> Records:
    """Two seeds of an event, one of another, and the profile that stands for the two."""
    own = {name.encode(): value(text=text, event="storm") for name, text in SEEDS.items()}
    pets = {b"pets": value(text=ARTICLES["pets"])}
    return {**own, **pets, KEY: profile_value("storm", SEEDS, **changes)}


def made(found: Records, limits: Limits | None = None, **more: Any) -> SeedSet:
    book = SeedBook(limits or Limits())
    for record in found.items():
        book.apply(*record)
    given = {"background_rate": 0.01, "threshold": None} | more
    return SeedEmbedder(small_encoder(), **given).make(book)


def ids(found: SeedSet) -> list[str]:
    return [seed.id for seed in found.seeds]


def test_it_takes_the_place_of_its_seeds() -> None:
    found = made(records())
    assert (ids(found), found.refused, found.stale) == (["pets", "profile|storm"], (), ())
    row = vector_of(list(SEEDS.values()), [ARTICLES["game"]]).as_row(0.6, small_encoder().digest)
    np.testing.assert_array_equal(found.embeddings.dense[1:], row.dense)
    np.testing.assert_array_equal(found.embeddings[1:].lexical.weights, row.lexical.weights)
    assert (row.lexical.weights < 0).any()
    plain = made({name: record for name, record in records().items() if name != KEY})
    assert ids(plain) == ["flood", "pets", "raid"]
    assert found.thresholds[0] == plain.thresholds[1]
    assert found.digest == seed_set_digest(found.seeds, None, 0.01) != plain.digest
    vectors = profile("storm", SEEDS)["vectors"]
    assert found.seeds[1].version == hashlib.sha256(vectors.encode()).hexdigest()[:12]


def test_of_too_many_profiles_the_first_by_their_ids_stay_stale_or_not() -> None:
    stale = {f"profile|{name}".encode(): profile_value(name, SEEDS) for name in ("a", "b", "z")}
    found = made({**stale, **records()}, Limits(seeds=3))
    assert [each.id for each in found.stale] == ["profile|a", "profile|b"]
    assert ids(found) == ["pets", "profile|storm"]
    assert [each.id for each in found.refused] == ["profile|z"]
    crowded = made({**stale, **records()}, Limits(seeds=2))
    assert [each.id for each in crowded.refused] == ["profile|storm", "profile|z", "raid"]
    assert all(each.reason.startswith("limits.seeds: 2 are allowed") for each in crowded.refused)
    assert ids(crowded) == ["flood", "pets"]


def test_a_book_keeps_of_a_profile_what_matching_takes() -> None:
    full = profile_value("storm", SEEDS, promise={"precision": 0.8}, made={"by": "a" * 99})
    book = SeedBook()
    book.apply(KEY, full)
    kept = read_record(KEY, full)
    assert isinstance(kept, Profile)
    assert kept.made
    assert list(book._latest.values()) == [replace(kept, made={}, promise=None, before=())]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({b"raid": None}, "seeds: 'raid' stands no more"),
        ({b"raid": b"{"}, "seeds: 'raid' stands no more"),
        ({b"raid": value(text="police", event="storm")}, "seeds: 'raid' has changed since"),
        ({b"raid": value(text=SEEDS["raid"])}, "seeds: 'raid' is of another event now"),
        ({b"raid": value(text=SEEDS["raid"], event="storm", paused=True)}, "seeds: 'raid' is"),
        (
            {KEY: profile_value("storm", SEEDS, model="0" * 64)},
            "model: learned with '00000",
        ),
        ({KEY: profile_value("storm", SEEDS | {"gone": "a"})}, "seeds: 'gone' stands no more"),
        ({KEY: profile_value("storm", SEEDS | {"pets": ARTICLES["pets"]})}, "seeds: 'pets' is of"),
        ({KEY: profile_value("storm", {"profile|storm": "a"})}, "seeds: 'profile|storm' stands no"),
    ],
)
def test_a_stale_one_lets_the_seeds_serve(changed: Records, why: str) -> None:
    found, plain = made({**records(), **changed}), made({**records(), **changed, KEY: None})
    assert [(profile.id, profile.reason[: len(why)]) for profile in found.stale] == [
        ("profile|storm", why)
    ]
    assert (ids(found), found.digest, found.refused) == (ids(plain), plain.digest, plain.refused)


@pytest.mark.parametrize(
    ("vectors", "why"),
    [
        (NARROW.encoded(), "vectors: 3 axes, the model has 12"),
        ("A" * 400_000, "vectors: 400000 characters"),
        ("A" * 10_000_000, "limits.article_bytes: 100"),
        (np.nan, "vectors: a number"),
    ],
)
def test_a_refused_one_lets_the_seeds_serve(vectors: object, why: str) -> None:
    found = made(records(vectors=vectors))
    assert ids(found) == ["flood", "pets", "raid"]
    (refused,) = found.refused
    assert (refused.id, refused.reason[: len(why)]) == ("profile|storm", why)


def test_words_for_a_model_without_are_refused() -> None:
    enc = small_encoder(0.0)
    book = SeedBook()
    for record in records(model=enc.digest).items():
        book.apply(*record)
    found = SeedEmbedder(enc, 0.01, None).make(book)
    assert ids(found) == ["flood", "pets", "raid"]
    assert found.refused[0].reason.startswith("vectors: has words, which the model does not read")


def test_one_beyond_the_limit_on_seeds_does_not_stand() -> None:
    found = made(records(), Limits(seeds=2))
    assert ids(found) == ["flood", "pets"]
    assert found.stale[0].reason == "seeds: 'raid' stands no more"
    assert ids(made(records(), Limits(seeds=3))) == ["pets", "profile|storm"]


def test_seeds_added_later_match_beside_it() -> None:
    later = value(text="storm music", event="storm")
    assert ids(made({**records(), b"later": later})) == ["later", "pets", "profile|storm"]


@pytest.mark.parametrize(
    ("ends", "last"),
    [
        ((1000, 2000), 2000),
        ((2000, 1000), 2000),
        ((1000, None), NEVER),
        ((None, None), NEVER),
        ((1000, 1000), 1000),
    ],
)
def test_it_ends_with_its_last_seed(ends: Sequence[int | None], last: int) -> None:
    found = dict(records())
    for (name, text), end in zip(SEEDS.items(), ends, strict=True):
        expires = None if end is None else f"1970-01-01T00:00:0{end // 1000}Z"
        found[name.encode()] = value(text=text, event="storm", expires_at=expires)
    assert made(found).expiry.tolist() == [NEVER, last]


def test_its_threshold_is_its_own_or_the_configured_or_automatic() -> None:
    assert made(records(threshold=0.7)).thresholds[1] == np.float32(0.7)
    assert made(records(threshold=0.7), threshold=0.3).thresholds[1] == np.float32(0.7)
    assert made(records(), threshold=0.3).thresholds.tolist() == [np.float32(0.3)] * 2
    calibrating = sides_of(small_encoder().background)[1]
    for rate in (0.01, 0.2):
        vector = EventVector.read(profile("storm", SEEDS)["vectors"])
        reached = sorted(vector.scores(calibrating).tolist())[-round(rate * len(calibrating))]
        assert made(records(), background_rate=rate).thresholds[1] == np.float32(reached)


def test_a_rate_that_its_side_of_the_background_cannot_tell_refuses_the_automatic_alone() -> None:
    rate = 0.55 / len(small_encoder().background)
    found = made(records(), background_rate=rate)
    assert ids(found) == ["flood", "pets", "raid"]
    assert found.refused[0].reason.startswith("matching.background_rate: ")
    assert ids(made(records(threshold=0.7), background_rate=rate)) == ["pets", "profile|storm"]


def test_no_order_of_records_makes_a_difference() -> None:
    wanted = made(records())
    for order in permutations(records().items()):
        assert same(made(dict(order)), wanted)


texts = st.sampled_from([None, SEEDS["flood"], SEEDS["raid"], "storm"])
changes = st.one_of(
    st.tuples(
        st.sampled_from([b"flood", b"raid"]),
        st.builds(
            lambda text, event, paused: text and value(text=text, event=event, paused=paused),
            texts, st.sampled_from(["storm", "other"]), st.booleans(),
        ),
    ),
    st.tuples(
        st.just(KEY),
        st.sampled_from([
            None, b"{", profile_value("storm", SEEDS), profile_value("storm", SEEDS, model="m"),
            profile_value("storm", {"flood": SEEDS["flood"]}, threshold=0.5),
        ]),
    ),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(changes, max_size=14), st.sets(st.integers(0, 13)), st.sets(st.integers(0, 13)))
def test_any_batching_and_compaction_ends_in_the_same_set(
    log: list[tuple[bytes, bytes | None]], dropped: set[int], pauses: set[int]
) -> None:
    last = {key: at for at, (key, _) in enumerate(log)}
    embedder, book = SeedEmbedder(small_encoder(), 0.01, None), SeedBook()
    for at, (key, record) in enumerate(log):
        if at not in dropped or last[key] == at:
            book.apply(key, record)
        if at in pauses:
            embedder.make(book)
    found = embedder.make(book)
    latest = dict(reversed(list(dict(log).items())))
    assert same(found, made(latest))
    assert [name for name in ids(found) if name.startswith("profile|")] == read_by_hand(latest)


def read_by_hand(latest: Records) -> list[str]:
    """The contract's sentence, read over the latest records by hand."""
    told = latest.get(KEY)
    if told in (None, b"{"):
        return []
    record = json.loads(told or b"")
    for name, version in record["seeds"].items():
        seed = json.loads(latest.get(name.encode()) or b"{}")
        stands = seed.get("event") == "storm" and not seed["paused"]
        if not stands or seed["text"] != SEEDS[name] or len(version) != 12:
            return []
    return ["profile|storm"] if record["model"] == small_encoder().digest else []
