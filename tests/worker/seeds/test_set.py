import base64
import hashlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import save

from encoder import Embeddings
from encoder.errors import InputError, MismatchError
from encoder.score.lexical import SLOTS
from tests.encoder.small_model import same_rows
from tests.worker.event_profiles import MADE, profile, profile_value, vector_of
from tests.worker.small_encoder import ARTICLES, ControlTopic, seed_set, small_encoder, value
from worker.config.limits import Limits
from worker.json_outline import MAX_DEPTH
from worker.posts.times import FIRST_MS, LAST_MS
from worker.seeds.automatic import ThresholdRules
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.profile import (
    MAX_VECTOR_CHARS,
    MAX_WORDS,
    EventVector,
    Profile,
    parse_control_record,
)
from worker.seeds.record import RefusedSeed, Seed, parse_seed_record
from worker.seeds.set import NEVER_EXPIRES, SeedSet, digest_row, seed_set_digest


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_record_with_every_key_is_read() -> None:
    given = value(
        text="The dam broke.", title="Dam", event="texas", url="https://e.org/a", threshold=0.25,
        expires_at="2026-01-31T12:00:00.5+01:00", author="someone", version="ignored",
    )  # fmt: skip
    seed = parse_seed_record("dämme".encode(), given)
    assert seed == Seed(
        "dämme", "Dam", "The dam broke.", "texas", "https://e.org/a", 0.25, 1769857200500
    )
    assert seed.version == sha('["Dam","The dam broke."]')[:12]


def test_optional_keys_may_be_absent_or_null() -> None:
    bare = parse_seed_record(b"s1", value(text="Überflutung"))
    assert bare == Seed("s1", "", "Überflutung", "s1", None, None, None)
    assert bare.version == sha('["","Überflutung"]')[:12]
    nulls = dict.fromkeys(("title", "event", "url", "threshold", "expires_at"))
    assert parse_seed_record(b"s1", value(text="Überflutung", **nulls)) == bare
    assert parse_seed_record(b"s1", None) is None
    assert parse_seed_record(None, None) is None


def test_how_deep_a_record_may_nest_does_not_depend_on_the_stack() -> None:
    def parse(levels: int, frames: int) -> Seed | RefusedSeed | None:
        if frames:
            return parse(levels, frames - 1)
        deep = b"[" * (levels - 1) + b"]" * (levels - 1)
        return parse_seed_record(b"s1", b'{"text": "a", "more": %b}' % deep)

    assert isinstance(parse(MAX_DEPTH, 0), Seed)
    for frames in (0, 300):
        refusal = parse(MAX_DEPTH + 1, frames)
        assert isinstance(refusal, RefusedSeed)
        assert refusal.reason == "value: bad JSON (nested too deep)"
    in_text = parse_seed_record(b"s1", value(text="[{" * MAX_DEPTH))
    assert isinstance(in_text, Seed)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (b"", "value: empty"),
        (b"{", "value: bad JSON"),
        (b"\xff{}", "value: is not UTF-8"),
        (b"[" * 100_000, "value: bad JSON"),
        (b"[]", "value: an array"),
        (b'{"text": "a", "threshold": ' + b"1" * 5000 + b"}", "value: bad JSON (a number has"),
        (b'{"text": "a", "text": "b"}', "value: bad JSON (key 'text' occurs twice)"),
        (b"{}", "text: missing or empty"),
        (value(text=" \n"), "text: missing or empty"),
        (value(text=7), "text: a number"),
        (value(text="a" * 131_073), "text: 131073 characters, 131072 are allowed"),
        (b'{"text": "\\ud800"}', "text: holds a lone surrogate"),
        (value(text="a", title="t" * 1025), "title: 1025 characters"),
        (value(text="a", event="ü" * 121), "event: 242 bytes, 240 are allowed"),
        (value(text="a", paused="yes"), "paused: a string, expected true or false"),
        (value(text="a", threshold="0.5"), "threshold: a string"),
        (value(text="a", threshold=0), "threshold: 0 is not above 0"),
        (value(text="a", threshold=1.0001), "threshold: 1.0001 is not"),
        (value(text="a", threshold=float("nan")), "threshold: nan is not"),
        (value(text="a", expires_at="tomorrow"), "expires_at: 'tomorrow' is not an RFC 3339"),
        (value(text="a", expires_at="9999-12-31T23:59:59-01:00"), "expires_at: '9999-12-31T"),
        (value(text="a", expires_at="2026-02-30T12:00:00Z"), "expires_at: '2026-02-30T"),
        (value(text="a", expires_at="\u0662026-01-31T12:00:00Z"), "expires_at: '\\u0662026"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_with_its_reason(given: bytes, reason: str) -> None:
    check_refusal(parse_seed_record(b"s1", given), "s1", reason)


def check_refusal(result: object, shown: str, reason: str | tuple[str, ...]) -> None:
    assert isinstance(result, RefusedSeed)
    assert result.id == shown
    assert result.reason.startswith(reason)
    assert result.reason.isprintable()
    assert len(result.reason) < 200


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2001-09-09t01:46:40.1239999z", 1_000_000_000_123),
        ("2001-09-09 03:46:40.001+02:00", 1_000_000_000_001),
        ("1969-12-31T23:59:59.999-00:00", -1),
        ("0001-01-01T00:00:00Z", FIRST_MS),
        ("9999-12-31T23:59:59.999+00:00", LAST_MS),
    ],
)
def test_expiry_is_in_whole_milliseconds(given: str, expected: int) -> None:
    seed = parse_seed_record(b"s", value(text="a", expires_at=given))
    assert isinstance(seed, Seed)
    assert seed.expires_at == expected


@pytest.mark.parametrize(
    ("key", "shown", "reason"),
    [
        (None, "", "key: missing"),
        (b"\xff", "\\xff", "key: is not UTF-8"),
        (b"k" * 257, "k" * 256, "key: 257 bytes, 256 are allowed"),
    ],
)
def test_a_bad_key_is_refused(key: bytes | None, shown: str, reason: str) -> None:
    check_refusal(parse_seed_record(key, value(text="a")), shown, reason)
    assert isinstance(parse_seed_record(b"k" * 256, value(text="a")), Seed)


values = st.sampled_from(
    [
        None,
        value(text="storm flood", title="a"),
        value(text="storm flood"),
        value(text="cat music", threshold=0.7),
        value(text="police fire", expires_at="2030-01-01T00:00:00Z"),
        value(text="the game", threshold=3),
        b"garbage",
    ]
)
logs = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"\xff", None]), values), max_size=30)


@settings(max_examples=60)
@given(logs)
def test_a_set_holds_embeddings_thresholds_and_expiry_of_the_latest_records(
    log: list[tuple[bytes | None, bytes | None]],
) -> None:
    latest: dict[bytes | None, bytes | None] = dict(log)
    readings = {key: parse_seed_record(key, held) for key, held in latest.items()}
    expected = sorted((s for s in readings.values() if isinstance(s, Seed)), key=lambda s: s.id)
    refused = sorted(s for s in readings.values() if isinstance(s, RefusedSeed))

    book = ControlTopic()
    for record in log:
        book.put(*record)
    made = SeedEmbedder(small_encoder(), ThresholdRules(0.01)).make(book.snapshot())
    assert made.seeds == tuple(expected)
    assert made.refused == tuple(refused)
    rows = {seed.id: digest_row(seed, None, "auto 0.010000") for seed in expected}
    if any(seed.threshold for seed in expected):
        rows["rate"] = '["rate","0.010000"]'
    assert made.digest == seed_set_digest(rows[name] for name in sorted(rows))
    articles = small_encoder().articles([(seed.title, seed.text) for seed in expected])
    assert same_rows(made.embeddings, articles)
    automatic = small_encoder().thresholds(articles, 0.01)
    own = [np.float32(s.threshold or t) for s, t in zip(expected, automatic, strict=True)]
    assert made.thresholds.tolist() == own
    assert made.expiry.tolist() == [s.expires_at or NEVER_EXPIRES for s in expected]


def test_the_digest_of_a_set_by_hand() -> None:
    a, b = Seed("b", "", "two", "b", threshold=0.5), Seed("a", "T", 'on"e é', "a")
    first, second = sha('["T","on\\"e é"]')[:12], sha('["","two"]')[:12]
    auto = f'[["a","{first}","auto 0.001000"],["b","{second}","0.500000"]]'
    rows = [digest_row(seed, None, "auto 0.001000") for seed in (b, a)]
    assert seed_set_digest(rows) == sha(auto)[:12]
    fixed = f'[["a","{first}","0.300000"],["b","{second}","0.500000"]]'
    assert seed_set_digest(digest_row(s, 0.3, "auto 0.001000") for s in (b, a)) == sha(fixed)[:12]
    assert seed_set_digest([]) == sha("[]")[:12]


def test_a_set_checks_its_parts() -> None:
    good = seed_set()
    parts = [good.seeds, good.vectors, good.thresholds, good.digest, good.refused, good.expiry]
    with pytest.raises(InputError, match="differ in number"):
        SeedSet(*[good.seeds[:1], *parts[1:]])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="sorted by id"):
        SeedSet(*[good.seeds[::-1], *parts[1:]])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="above 0"):
        SeedSet(*[*parts[:2], good.thresholds * 0, *parts[3:]])  # type: ignore[arg-type]


def test_the_limit_on_an_article_s_bytes_is_exact() -> None:
    given = value(text="a" * 100)
    fits, exceeds = Limits(article_bytes=len(given)), Limits(article_bytes=len(given) - 1)
    assert isinstance(parse_seed_record(b"s", given, fits), Seed)
    reason = f"limits.article_bytes: {len(given)} bytes, {len(given) - 1} are allowed; shorten it"
    assert parse_seed_record(b"s", given, exceeds) == RefusedSeed("s", reason)


@pytest.mark.parametrize("key", ["title", "text"])
def test_the_limit_on_combining_marks_is_exact(key: str) -> None:
    def marked(count: int) -> bytes:
        return value(**{"text": "a", key: "na" + "\u0301" * count})

    assert isinstance(parse_seed_record(b"s", marked(30)), Seed)
    reason = f"limits.marks: {key}: a letter has 31 combining marks, 30 are allowed"
    assert parse_seed_record(b"s", marked(31)) == RefusedSeed("s", reason)


SEEDS = {name: ARTICLES[name] for name in ("flood", "raid")}
KEY = "profile|stürm".encode()
RECORD = profile("stürm", SEEDS)
PROMISE = {"precision": 0.8, "confidence": 0.9}


def read_profile(key: bytes = KEY, **changes: Any) -> Profile:
    result = parse_control_record(key, value(**RECORD | changes))
    assert isinstance(result, Profile)
    return result


def test_a_record_with_every_key_is_read_and_written() -> None:
    result = read_profile(threshold=0.4, promise=PROMISE, before=[RECORD], other="ignored")
    assert (result.id, result.event, result.title) == ("profile|stürm", "stürm", "")
    assert result.seeds == RECORD["seeds"]
    assert (result.model, result.threshold, result.promise) == (RECORD["model"], 0.4, PROMISE)
    assert (result.made, result.before) == (MADE, (RECORD,))
    assert result.vector.encode() == RECORD["vectors"] == result.vectors
    assert parse_control_record(KEY, result.value()) == result
    assert json.loads(read_profile().value()) == RECORD
    assert result.version == hashlib.sha256(RECORD["vectors"].encode()).hexdigest()[:12]


def test_optional_keys_of_a_profile_may_be_absent_or_null() -> None:
    bare = {name: RECORD[name] for name in ("event", "vectors", "seeds", "model")}
    result = parse_control_record(
        KEY, value(**bare, threshold=None, promise=None, made=None, before=None)
    )
    assert result == parse_control_record(KEY, value(**bare)) == Profile(**bare)
    assert parse_control_record(KEY, None) is None


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
    result = read_profile(before=[RECORD, RECORD, RECORD])
    values = [read_profile(before=[RECORD] * count).value() for count in range(4)]
    sizes = list(map(len, values))
    for count, size in enumerate(sizes):
        assert result.value(Limits(article_bytes=size)) == values[count]
        less = result.value(Limits(article_bytes=size - 1)) if count else b""
        assert len(less) == (sizes[count - 1] if count else 0)
    with pytest.raises(InputError, match=r"limits\.article_bytes"):
        result.value(Limits(article_bytes=sizes[0] - 1))


def test_the_prefix_of_a_key_is_reserved_for_profiles() -> None:
    result = parse_control_record(b"profile|a", value(text="The dam broke."))
    assert result == RefusedSeed(
        "profile|a", "key: profile| begins the ids of profiles; give the seed another id"
    )
    assert parse_seed_record(b"profile|a", value(text="The dam broke.")) == result
    assert isinstance(parse_control_record(b"profile", value(text="The dam broke.")), Seed)
    assert isinstance(parse_control_record(b"Profile|a", value(text="The dam broke.")), Seed)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"event": "other"}, "event: 'other' is not that of the key, 'profile|stürm'"),
        ({"event": "ü" * 121}, "event: 242 bytes, 240 are allowed"),
        ({"event": "\ud800"}, "event: holds a lone surrogate"),
        ({"vectors": None}, "vectors: no safetensors"),
        ({"vectors": "A" * 10_000_000}, "limits.article_bytes: 1000"),
        ({"seeds": ["flood"]}, "seeds: an array, expected an object"),
        ({"seeds": {"flood": 7}}, "seeds: a version is not a string"),
        ({"model": None}, "model: missing"),
        ({"threshold": 0}, "threshold: 0 is not above 0"),
        ({"threshold": float("nan")}, "threshold: nan is not"),
        ({"skim_threshold": [0.1] * 80}, "skim_threshold: an array, expected a number"),
        ({"before": [{}, {}, {}, {}]}, "before: 4 versions, 3 are allowed"),
    ],
)  # fmt: skip
def test_a_bad_profile_is_refused_with_its_reason(changes: dict[str, Any], reason: str) -> None:
    check_refusal(parse_control_record(KEY, value(**RECORD | changes)), "profile|stürm", reason)


@pytest.mark.parametrize("key", [b"profile|", b"profile|\xff", b"profile|" + b"e" * 249])
def test_a_bad_key_of_a_profile_is_refused(key: bytes) -> None:
    event = key.removeprefix(b"profile|").decode(errors="replace")
    result = parse_control_record(key, profile_value(event, SEEDS))
    assert isinstance(result, RefusedSeed)
    assert result.reason.startswith(("event: ", "key: "))


DIM = small_encoder().dim
POSTS = ["storm flood in the city", "a cat", "police fire", "", "music of the game", "??"]


def posts(mix: float = 0.6) -> Embeddings:
    return small_encoder(mix).posts(POSTS)


def event(mix: float = 0.6) -> EventVector:
    return vector_of([ARTICLES["flood"]], [ARTICLES["game"]], small_encoder(mix))


def parts(vector: EventVector) -> dict[str, NDArray[np.generic]]:
    return {"dense": vector.dense, "slots": vector.slots, "weights": vector.weights}


def encoded(**changed: NDArray[np.generic]) -> str:
    return base64.b64encode(save(parts(event()) | changed)).decode()


def test_a_vector_that_is_accepted_is_a_row_that_can_be_compared() -> None:
    """At the edge of what embeddings may be, rounding decides: a seed set could not be made."""
    vector, accepted = vector_of([ARTICLES["flood"]]), 0
    for size in (0.9989, 0.9991, 0.9997, 1.0003, 1.0009, 1.0011):
        dense, weights = (np.float32(size) * part for part in (vector.dense, vector.weights))
        if abs(size - 1) > 0.0005:
            with pytest.raises(InputError, match="together they must have length 1"):
                EventVector(dense, vector.slots, weights)
            continue
        accepted += EventVector(dense, vector.slots, weights).as_row(0.6, "").is_unit()
    assert accepted == 2


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
    again = EventVector.decode(vector.encode())
    for name, array in parts(vector).items():
        np.testing.assert_array_equal(parts(again)[name], array)
        assert not parts(again)[name].flags.writeable
        assert parts(again)[name].flags.aligned
    assert again.encode() == vector.encode()


def test_only_the_heaviest_words_are_kept() -> None:
    count = MAX_WORDS + 500
    weights = np.random.default_rng(7).normal(size=count).astype(np.float32)
    slots = np.arange(0, 20 * count, 20, dtype=np.int32)
    made = EventVector.normalised(np.zeros(DIM, np.float32), slots, weights)
    heavy = sorted(range(count), key=lambda i: -abs(weights[i]))[:MAX_WORDS]
    assert made.slots.tolist() == [20 * i for i in sorted(heavy)]
    assert len(made.encode()) <= MAX_VECTOR_CHARS
    with pytest.raises(InputError, match="0 long"):
        EventVector.normalised(np.zeros(DIM, np.float32), slots, weights * 0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "A" * (MAX_VECTOR_CHARS + 1),
            f"{MAX_VECTOR_CHARS + 1} characters, {MAX_VECTOR_CHARS} are allowed",
        ),
        ("ü", "no base64"),
        ("AAA", "no base64"),
        (base64.b64encode(b"\xff" * 64).decode(), "no safetensors"),
        (base64.b64encode((2).to_bytes(8, "little") + b"{}").decode(), "dense is missing"),
        (encoded(dense=event().dense.astype(np.float64)), "dense is not a flat array of float32"),
        (encoded(slots=event().slots.astype(np.int64)), "slots is not a flat array of int32"),
        (encoded(weights=event().weights[1:]), "as many weights as slots"),
        (encoded(dense=np.zeros(2**13 + 1, np.float32)), "8193 axes"),
        (encoded(slots=event().slots * 0), "a slot occurs twice"),
        (encoded(dense=np.full(DIM, np.nan, np.float32)), "nan long"),
        (encoded(dense=event().dense * 2), "together they must have length 1"),
        (encoded(dense=event().dense * 0, weights=event().weights * 0), "0 long"),
    ],
)
def test_a_bad_vector_is_refused_with_its_reason(text: object, reason: str) -> None:
    with pytest.raises(InputError, match=f"^vectors: .*{reason}") as error:
        EventVector.decode(text)
    assert len(str(error.value)) < 200
    assert str(error.value).isprintable()


def test_a_vector_of_another_model_is_refused() -> None:
    with pytest.raises(MismatchError, match="has words"):
        event().as_row(0, "")
    narrow = EventVector.normalised(event().dense[1:], event().slots, event().weights)
    with pytest.raises(MismatchError, match=f"{DIM - 1} axes"):
        narrow.scores(posts())
