import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.event_profiles import profile, profile_value, vector_of
from tests.worker.small_encoder import ARTICLES, ControlTopic, Mail, same, small_encoder, value
from worker.config.limits import Limits
from worker.seeds.automatic import ThresholdRules, split_background
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.profile import EventVector, Profile, parse_control_record
from worker.seeds.record import RefusedSeed, Seed
from worker.seeds.set import NEVER_EXPIRES, SeedSet, digest_row, seed_set_digest
from worker.seeds.state import (
    RECORD_OVERHEAD_BYTES,
    ControlReducer,
    ControlState,
    ModelFacts,
    parse_control_state,
)

Record = tuple[bytes | None, bytes | None]
PROFILE = b"profile|storm"
LONG = b"k" * 100_000

keys = st.sampled_from([None, b"", b"a", b"b", b"\xff", LONG + b"a", LONG + b"b", PROFILE])
values = st.one_of(
    st.none(),
    st.binary(max_size=9),
    st.builds(
        lambda text, event, paused: value(text=text, event=event, paused=paused),
        st.sampled_from(list(ARTICLES.values())), st.sampled_from(["storm", "other"]),
        st.booleans(),
    ),
    st.sampled_from([
        profile_value("storm", {"a": ARTICLES["flood"]}),
        profile_value("storm", {"a": ARTICLES["flood"]}, promise={"precision": 0.8}),
    ]),
)  # fmt: skip
logs = st.lists(st.tuples(keys, values), max_size=12)
limits = st.builds(Limits, seeds=st.integers(1, 3))


def state_of(records: Sequence[Record], limits: Limits | None = None) -> ControlState:
    topic = ControlTopic(limits or Limits())
    for record in records:
        topic.put(*record)
    return topic.snapshot()


def feed(reducer: ControlReducer, log: Sequence[Record]) -> None:
    mails: list[Any] = [Mail(value, key=key, offset=at) for at, (key, value) in enumerate(log)]
    reducer.apply(mails)


@given(logs, limits)
def test_the_state_is_that_of_a_slow_reading_of_the_latest_records(
    log: list[Record], limits: Limits
) -> None:
    latest = {key or b"": value for key, value in log}
    contents = [parse_control_record(key, value, limits) for key, value in latest.items()]
    seeds = sorted(each.id for each in contents if isinstance(each, Seed) and not each.paused)
    profiles = sorted(each.event for each in contents if isinstance(each, Profile))
    refused = [each.id for each in contents if isinstance(each, RefusedSeed)]
    refused += seeds[limits.seeds :] + [f"profile|{n}" for n in profiles[limits.seeds :]]
    paused = {each.id for each in contents if isinstance(each, Seed) and each.paused}

    state = state_of(log, limits)
    assert set(state.seeds) == {*seeds[: limits.seeds], *paused}
    assert set(state.profiles) == set(profiles[: limits.seeds])
    assert sorted(each.id for each in state.refused.values()) == sorted(refused)
    values_by_key = {
        record.key or b"": record.value for record in state.records.values() if record.value
    }
    assert values_by_key == {key: value for key, value in latest.items() if value}


@given(logs, limits, st.sets(st.integers(0, 11)))
def test_batching_does_not_matter_and_a_snapshot_never_changes(
    log: list[Record], limits: Limits, looks: set[int]
) -> None:
    at_once, topic = ControlReducer(limits), ControlTopic(limits)
    states: list[tuple[int, ControlState]] = []
    feed(at_once, log)
    for at, record in enumerate(log):
        topic.put(*record)
        if at in looks:
            states.append((at, topic.snapshot()))
    assert topic.snapshot() == at_once.snapshot()
    assert topic.snapshot().digest == at_once.snapshot().digest
    assert topic.snapshot().offset == at_once.snapshot().offset == len(log)
    assert all(state == state_of(log[: at + 1], limits) for at, state in states)


@given(logs)
def test_without_values_the_state_is_the_same(log: list[Record]) -> None:
    bare = ControlReducer(values=False)
    feed(bare, log)
    state, whole = bare.snapshot(), state_of(log)
    assert (state.seeds, state.refused) == (whole.seeds, whole.refused)
    assert state.records == {}
    for event, without in state.profiles.items():
        assert without == whole.profiles[event].without_history()
        assert (without.made, without.before, without.promise) == ({}, (), None)
        assert without.vector.encode() == whole.profiles[event].vector.encode()


def test_the_digest_by_hand() -> None:
    one = parse_control_state({b"a": b"bc", b"d": b""})
    rows = [hashlib.sha256(b"1:abc").digest(), hashlib.sha256(b"1:d").digest()]
    assert one.digest == hashlib.sha256(b"".join(sorted(rows))).hexdigest()
    assert parse_control_state({b"ab": b"c", b"d": b""}).digest != one.digest
    assert parse_control_state({}).digest == hashlib.sha256(b"").hexdigest()


def test_a_paused_seed_is_neither_matched_nor_counted() -> None:
    topic = ControlTopic(Limits(seeds=1))
    topic.put(b"a", value(text="Dam", paused=True))
    topic.put(b"b", value(text="Fire", paused=False))
    made = SeedEmbedder(small_encoder(), ThresholdRules(0.01, 0.4)).make(topic.snapshot())
    assert [seed.id for seed in made.seeds] == ["b"]
    assert [seed.id for seed in made.paused] == ["a"]
    assert made.refused == ()
    alone = parse_control_state({b"b": value(text="Fire")})
    assert (
        made.digest == SeedEmbedder(small_encoder(), ThresholdRules(0.01, 0.4)).make(alone).digest
    )


def test_long_keys_are_distinct_and_stored_short() -> None:
    topic = ControlTopic()
    for end in (b"a", b"b"):
        topic.put(LONG + end, value(text="Dam"))
    state = topic.snapshot()
    assert len(state.refused) == 2
    assert max(map(len, state.refused)) <= 256
    assert state.value(LONG + b"a") == value(text="Dam")
    topic.put(LONG + b"a", None)
    assert len(topic.snapshot().refused) == 1


@given(logs, st.integers(0, 4000))
def test_memory_is_bounded_and_holds_the_latest_records(log: list[Record], room: int) -> None:
    reducer = ControlReducer(room=room)
    feed(reducer, log)
    state, latest = reducer.snapshot(), {k or b"": v for k, v in log if v is not None}
    sizes = [
        RECORD_OVERHEAD_BYTES + len(key) + len(r.value or b"") for key, r in state.records.items()
    ]
    assert sum(sizes) <= room
    assert all(record.value == latest[record.key or b""] for record in state.records.values())
    assert state.left_out or state == state_of(log)


def test_the_status_by_records_alone() -> None:
    state = parse_control_state({
        b"live": value(text="dam"), b"paused": value(text="dam", paused=True),
        b"ends": value(text="dam", expires_at="1970-01-01T00:00:02Z"), b"broken": b"{",
        b"profile|no": b"{}",
    })  # fmt: skip
    for name, at, expected in (
        ("live", 1_999, "live"), ("ends", 1_999, "live"), ("ends", 2_000, "expired"),
        ("paused", 0, "paused"), ("broken", 0, "refused"), ("profile|no", 0, "refused"),
    ):  # fmt: skip
        assert state.status(name, at).state == expected
        assert state.resolve(None).status(name, at) == state.status(name, at)


def test_the_status_by_a_model() -> None:
    seeds, enc = {"flood": ARTICLES["flood"]}, small_encoder()
    rows = {b"flood": value(text=seeds["flood"], event="storm", expires_at="1970-01-01T00:00:02Z")}
    rows |= {b"profile|storm": profile_value("storm", seeds)}
    rows |= {b"profile|gone": profile_value("gone", {"x": "y"})}
    state = parse_control_state(rows)

    def statuses(model: ModelFacts | None, at: int) -> list[str]:
        resolution = state.resolve(model)
        return [resolution.status(name.decode(), at).state for name in rows]

    facts = ModelFacts(enc.digest, enc.dim, enc.mix)
    assert statuses(facts, 1_999) == ["replaced", "live", "stale"]
    assert statuses(facts, 2_000) == ["replaced", "expired", "stale"]
    assert statuses(None, 1_999) == ["live", "unknown", "unknown"]
    assert statuses(ModelFacts(enc.digest, 3, enc.mix), 0) == ["live", "refused", "stale"]
    by_rate = ModelFacts(enc.digest, enc.dim, enc.mix, lambda profile: "matching.background_rate")
    resolution = state.resolve(by_rate)
    assert [each.reason for each in resolution.refused] == ["matching.background_rate"]
    assert [each.id for each in resolution.stale] == ["profile|gone"]


def test_unreadable_records_are_counted() -> None:
    reducer = ControlReducer()
    feed(reducer, [(b"a", value(text="dam"))])
    reducer.skip(7)
    assert (reducer.snapshot().unreadable, reducer.snapshot().complete) == (7, False)
    reducer.finish()
    assert reducer.snapshot().complete


KEY = b"profile|storm"
SEEDS = {name: ARTICLES[name] for name in ("flood", "raid")}
NARROW = EventVector.normalised(
    np.ones(3, np.float32), np.zeros(0, np.int32), np.zeros(0, np.float32)
)
Records = Mapping[bytes, bytes | None]


def records(**changes: Any) -> Records:
    """Two seeds of an event, one of another, and the profile that stands for the two."""
    own = {name.encode(): value(text=text, event="storm") for name, text in SEEDS.items()}
    pets = {b"pets": value(text=ARTICLES["pets"])}
    return {**own, **pets, KEY: profile_value("storm", SEEDS, **changes)}


def made(result: Records, limits: Limits | None = None, **more: Any) -> SeedSet:
    book = ControlTopic(limits or Limits())
    for record in result.items():
        book.put(*record)
    rules = ThresholdRules(**({"rate": 0.01} | more))
    return SeedEmbedder(small_encoder(), rules).make(book.snapshot())


def ids(result: SeedSet) -> list[str]:
    return [seed.id for seed in result.seeds]


def test_a_profile_replaces_its_seeds_but_not_later_ones() -> None:
    result = made(records())
    assert (ids(result), result.refused, result.stale) == (["pets", "profile|storm"], (), ())
    row = vector_of(list(SEEDS.values()), [ARTICLES["game"]]).as_row(0.6, small_encoder().digest)
    np.testing.assert_array_equal(result.embeddings.dense[1:], row.dense)
    np.testing.assert_array_equal(result.embeddings[1:].lexical.weights, row.lexical.weights)
    assert (row.lexical.weights < 0).any()
    plain = made({name: record for name, record in records().items() if name != KEY})
    assert ids(plain) == ["flood", "pets", "raid"]
    assert result.thresholds[0] == plain.thresholds[1]
    rows = [digest_row(each, None, "auto 0.010000") for each in result.seeds]
    assert result.digest == seed_set_digest(rows) != plain.digest
    vectors = profile("storm", SEEDS)["vectors"]
    later = {b"later": value(text="storm music", event="storm")}
    assert ids(made({**records(), **later})) == ["later", "pets", "profile|storm"]
    assert result.seeds[1].version == hashlib.sha256(vectors.encode()).hexdigest()[:12]


def test_of_too_many_profiles_the_first_by_id_count() -> None:
    stale = {f"profile|{name}".encode(): profile_value(name, SEEDS) for name in ("a", "b", "z")}
    result = made({**stale, **records()}, Limits(seeds=3))
    assert [each.id for each in result.stale] == ["profile|a", "profile|b"]
    assert ids(result) == ["pets", "profile|storm"]
    assert [each.id for each in result.refused] == ["profile|z"]
    crowded = made({**stale, **records()}, Limits(seeds=2))
    assert [each.id for each in crowded.refused] == ["profile|storm", "profile|z", "raid"]
    assert all(each.reason.startswith("limits.seeds: 2 are allowed") for each in crowded.refused)
    assert ids(crowded) == ["flood", "pets"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({b"raid": None}, "seeds: 'raid' does not exist any more"),
        ({b"raid": value(text="police", event="storm")}, "seeds: 'raid' has changed since"),
        ({b"raid": value(text=SEEDS["raid"])}, "seeds: 'raid' belongs to another event now"),
        ({b"raid": value(text=SEEDS["raid"], event="storm", paused=True)}, "seeds: 'raid' is"),
        ({KEY: profile_value("storm", SEEDS, model="0" * 64)}, "model: learned with '00000"),
        (
            {KEY: profile_value("storm", SEEDS | {"pets": ARTICLES["pets"]})},
            "seeds: 'pets' belongs",
        ),
    ],
)
def test_a_stale_profile_leaves_its_seeds_in_force(changed: Records, why: str) -> None:
    result, plain = made({**records(), **changed}), made({**records(), **changed, KEY: None})
    assert [(profile.id, profile.reason[: len(why)]) for profile in result.stale] == [
        ("profile|storm", why)
    ]
    assert (ids(result), result.digest, result.refused) == (ids(plain), plain.digest, plain.refused)


@pytest.mark.parametrize(
    ("vectors", "why"),
    [
        (NARROW.encode(), "vectors: 3 axes, the model has 12"),
        ("A" * 10_000_000, "limits.article_bytes: 100"),
    ],
)
def test_a_refused_profile_leaves_its_seeds_in_force(vectors: object, why: str) -> None:
    result = made(records(vectors=vectors))
    assert ids(result) == ["flood", "pets", "raid"]
    (refused,) = result.refused
    assert (refused.id, refused.reason[: len(why)]) == ("profile|storm", why)


@pytest.mark.parametrize(
    ("ends", "last"),
    [
        ((1000, 2000), 2000),
        ((2000, 1000), 2000),
        ((1000, None), NEVER_EXPIRES),
        ((None, None), NEVER_EXPIRES),
    ],
)
def test_a_profile_expires_with_its_last_seed(ends: Sequence[int | None], last: int) -> None:
    result = dict(records())
    for (name, text), end in zip(SEEDS.items(), ends, strict=True):
        expires = None if end is None else f"1970-01-01T00:00:0{end // 1000}Z"
        result[name.encode()] = value(text=text, event="storm", expires_at=expires)
    assert made(result).expiry.tolist() == [NEVER_EXPIRES, last]


def test_the_threshold_of_a_profile_is_its_own_or_configured_or_automatic() -> None:
    assert made(records(threshold=0.7)).thresholds[1] == np.float32(0.7)
    assert made(records(threshold=0.7), threshold=0.3).thresholds[1] == np.float32(0.7)
    assert made(records(), threshold=0.3).thresholds.tolist() == [np.float32(0.3)] * 2
    calibrating = split_background(small_encoder().background.read)[1]
    for rate in (0.01, 0.2):
        vector = EventVector.decode(profile("storm", SEEDS)["vectors"])
        reached = sorted(vector.scores(calibrating).tolist())[-round(rate * len(calibrating))]
        assert made(records(), rate=rate).thresholds[1] == np.float32(reached)


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


@settings(max_examples=60)
@given(st.lists(changes, max_size=14), st.sets(st.integers(0, 13)), st.sets(st.integers(0, 13)))
def test_any_batching_and_compaction_gives_the_same_set(
    log: list[tuple[bytes, bytes | None]], dropped: set[int], pauses: set[int]
) -> None:
    last = {key: at for at, (key, _) in enumerate(log)}
    embedder, book = SeedEmbedder(small_encoder(), ThresholdRules(0.01)), ControlTopic()
    for at, (key, record) in enumerate(log):
        if at not in dropped or last[key] == at:
            book.put(key, record)
        if at in pauses:
            embedder.make(book.snapshot())
    result = embedder.make(book.snapshot())
    latest = dict(reversed(list(dict(log).items())))
    assert same(result, made(latest))
    assert [name for name in ids(result) if name.startswith("profile|")] == read_by_hand(latest)


def read_by_hand(latest: Records) -> list[str]:
    latest_profile = latest.get(KEY)
    if latest_profile in (None, b"{"):
        return []
    record = json.loads(latest_profile or b"")
    for name, version in record["seeds"].items():
        seed = json.loads(latest.get(name.encode()) or b"{}")
        stands = seed.get("event") == "storm" and not seed["paused"]
        if not stands or seed["text"] != SEEDS[name] or len(version) != 12:
            return []
    return ["profile|storm"] if record["model"] == small_encoder().digest else []
