"""Control records become seeds: refusals, and the latest record of a key counts."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.errors import InputError
from tests.worker.small import ControlTopic, seed_set, small_encoder, value
from worker.config.limits import Limits
from worker.posts.times import FIRST_MS, LAST_MS
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.record import RefusedSeed, Seed, read_seed
from worker.seeds.set import NEVER, SeedSet, seed_set_digest


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_record_with_every_key_is_read() -> None:
    given = value(
        text="The dam broke.", title="Dam", event="texas", url="https://e.org/a", threshold=0.25,
        expires_at="2026-01-31T12:00:00.5+01:00", author="someone", version="ignored",
    )  # fmt: skip
    seed = read_seed("dämme".encode(), given)
    assert seed == Seed(
        "dämme", "Dam", "The dam broke.", "texas", "https://e.org/a", 0.25, 1769857200500
    )
    assert seed.version == sha('["Dam","The dam broke."]')[:12]


def test_optional_keys_may_be_absent_or_null() -> None:
    bare = read_seed(b"s1", value(text="Überflutung"))
    assert bare == Seed("s1", "", "Überflutung", "s1", None, None, None)
    assert bare.version == sha('["","Überflutung"]')[:12]
    nulls = dict.fromkeys(("title", "event", "url", "threshold", "expires_at"))
    assert read_seed(b"s1", value(text="Überflutung", **nulls)) == bare
    assert read_seed(b"s1", None) is None
    assert read_seed(None, None) is None


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (b"", "value: empty"),
        (b"{", "value: bad JSON"),
        (b"\xff{}", "value: is not UTF-8"),
        (b"[" * 100_000, "value: bad JSON"),
        (b"[]", "value: an array"),
        (b'{"text": "a", "text": "b"}', "value: bad JSON (key 'text' stands twice)"),
        (b"{}", "text: missing or empty"),
        (value(text=" \n"), "text: missing or empty"),
        (value(text=7), "text: a number"),
        (value(text="a" * 131_073), "text: 131073 characters, 131072 are allowed"),
        (b'{"text": "\\ud800"}', "text: holds a lone surrogate"),
        (value(text="a", title="t" * 1025), "title: 1025 characters"),
        (value(text="a", event="ü" * 121), "event: 242 bytes, 240 are allowed"),
        (value(text="a", paused="yes"), "paused: a string, expected true or false"),
        (value(text="a", threshold="0.5"), "threshold: a string"),
        (value(text="a", threshold=0), "threshold: a whole number is not above 0"),
        (value(text="a", threshold=1.0001), "threshold: 1.0001 is not"),
        (value(text="a", threshold=float("nan")), "threshold: nan is not"),
        (value(text="a", expires_at="tomorrow"), "expires_at: 'tomorrow' is no RFC 3339"),
        (value(text="a", expires_at="9999-12-31T23:59:59-01:00"), "expires_at: '9999-12-31T"),
        (value(text="a", expires_at="2026-02-30T12:00:00Z"), "expires_at: '2026-02-30T"),
        (value(text="a", expires_at="\u0662026-01-31T12:00:00Z"), "expires_at: '\\u0662026"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_with_its_reason(given: bytes, reason: str) -> None:
    result = read_seed(b"s1", given)
    assert isinstance(result, RefusedSeed)
    assert result.id == "s1"
    assert result.reason.startswith(reason)
    assert len(result.reason.splitlines()) == 1
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
    seed = read_seed(b"s", value(text="a", expires_at=given))
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
    result = read_seed(key, value(text="a"))
    assert isinstance(result, RefusedSeed)
    assert result.id == shown
    assert result.reason.startswith(reason)
    assert isinstance(read_seed(b"k" * 256, value(text="a")), Seed)


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


@settings(max_examples=60, deadline=None)
@given(logs)
def test_a_set_holds_embeddings_thresholds_and_expiry_of_the_latest_records(
    log: list[tuple[bytes | None, bytes | None]],
) -> None:
    latest: dict[bytes | None, bytes | None] = dict(log)
    readings = {key: read_seed(key, held) for key, held in latest.items()}
    expected = sorted((s for s in readings.values() if isinstance(s, Seed)), key=lambda s: s.id)
    refused = sorted(s for s in readings.values() if isinstance(s, RefusedSeed))

    book = ControlTopic()
    for record in log:
        book.put(*record)
    made = SeedEmbedder(small_encoder(), 0.01, None).make(book.snapshot())
    assert made.seeds == tuple(expected)
    assert made.refused == tuple(refused)
    assert made.digest == seed_set_digest(expected, None, 0.01)
    articles = small_encoder().articles([(seed.title, seed.text) for seed in expected])
    np.testing.assert_array_equal(made.embeddings.dense, articles.dense)
    np.testing.assert_array_equal(made.embeddings.lexical.slots, articles.lexical.slots)
    np.testing.assert_array_equal(made.embeddings.lexical.weights, articles.lexical.weights)
    automatic = small_encoder().thresholds(articles, 0.01)
    own = [np.float32(s.threshold or t) for s, t in zip(expected, automatic, strict=True)]
    assert made.thresholds.tolist() == own
    assert made.expiry.tolist() == [s.expires_at or NEVER for s in expected]


def test_the_digest_of_a_set_by_hand() -> None:
    a, b = Seed("b", "", "two", "b", threshold=0.5), Seed("a", "T", 'on"e é', "a")
    first, second = sha('["T","on\\"e é"]')[:12], sha('["","two"]')[:12]
    auto = f'[["a","{first}","auto 0.001000"],["b","{second}","0.500000"]]'
    assert seed_set_digest([a, b], None, 0.001) == sha(auto)[:12]
    fixed = f'[["a","{first}","0.300000"],["b","{second}","0.500000"]]'
    assert seed_set_digest([b, a], 0.3, 0.001) == sha(fixed)[:12]
    assert seed_set_digest([], None, 0.001) == sha("[]")[:12]


def test_a_set_checks_its_parts() -> None:
    good = seed_set()
    parts = [good.seeds, good.embeddings, good.thresholds, good.digest, good.refused, good.expiry]
    with pytest.raises(InputError, match="differ in number"):
        SeedSet(*[good.seeds[:1], *parts[1:]])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="do not rise"):
        SeedSet(*[good.seeds[::-1], *parts[1:]])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="above 0"):
        SeedSet(*[*parts[:2], good.thresholds * 0, *parts[3:]])  # type: ignore[arg-type]


def test_the_limit_on_an_article_s_bytes_is_exact() -> None:
    given = value(text="a" * 100)
    fits, exceeds = Limits(article_bytes=len(given)), Limits(article_bytes=len(given) - 1)
    assert isinstance(read_seed(b"s", given, fits), Seed)
    reason = f"limits.article_bytes: {len(given)} bytes, {len(given) - 1} are allowed; shorten it"
    assert read_seed(b"s", given, exceeds) == RefusedSeed("s", reason)


@pytest.mark.parametrize("key", ["title", "text"])
def test_the_limit_on_combining_marks_is_exact(key: str) -> None:
    def marked(count: int) -> bytes:
        return value(**{"text": "a", key: "na" + "\u0301" * count})

    assert isinstance(read_seed(b"s", marked(30)), Seed)
    reason = f"limits.marks: {key}: a letter has 31 combining marks, 30 are allowed"
    assert read_seed(b"s", marked(31)) == RefusedSeed("s", reason)
