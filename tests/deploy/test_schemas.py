import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from jsonschema import Draft202012Validator

import encoder
from newsift.operations.deletions import encode_deletion, redact
from newsift.statistics.labels import Label, Note, read_label
from tests.worker.event_profiles import profile
from tests.worker.small_encoder import ControlTopic, Mail
from worker.config import TopicsConfig
from worker.config.limits import Limits
from worker.match.pipeline import Pipeline
from worker.match.records import MatchRecord
from worker.posts.read import Post, PostRules, Reason, read_post
from worker.seeds.automatic import ThresholdRules
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.profile import Profile, parse_control_record
from worker.seeds.record import Seed, parse_seed_record

SCHEMAS = Path(__file__).parents[2] / "deploy" / "schemas"
NAMES = sorted(file.stem for file in SCHEMAS.glob("*.json"))
SAMPLES = Path(__file__).parents[2] / "worker" / "samples"


def load(name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))
    return result


def closed(schema: Any) -> Any:
    """The schema with every object closed to keys that it does not name."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(part) for key, part in schema.items()}
    return made | {"additionalProperties": False} if made.get("type") == "object" else made


@pytest.fixture(scope="module")
def outcome() -> Any:
    enc = encoder.load("default", device="cpu")
    book = ControlTopic()
    for name, extra in (("a", {}), ("b", {"title": "Ferry", "event": "fire", "threshold": 0.01})):
        text = (SAMPLES / "seeds" / "ferry-fire.md").read_text("utf-8")
        book.put(name.encode(), json.dumps({"text": text} | extra).encode())
    plain = {"id": 7, "text": "fire on the ferry Astrid Vane off Port Maren"}
    full = {"author": "ann", "created_at": "2026-03-01T10:00:00+02:00", "lang": "en", "url": "u"}
    values = [json.dumps(plain).encode(), json.dumps(plain | full).encode(), b"{", None, b"x" * 999]
    retry = [("attempt", b"2")]
    messages = [Mail(value, offset=n, key=b"k", headers=retry) for n, value in enumerate(values)]
    seeds = SeedEmbedder(enc, ThresholdRules(0.001)).make(book.snapshot())
    pipeline = Pipeline(enc, PostRules(limits=Limits(post_bytes=500)))
    return pipeline.run(messages, seeds, lambda: "2026-03-01T10:00:00.000Z")


@pytest.mark.parametrize("name", NAMES)
def test_each_schema_is_valid_and_named(name: str) -> None:
    schema = load(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:newsift:schema:{name}:1"


def test_match_records_have_the_keys_of_the_schema_alone(outcome: Any) -> None:
    values = [json.loads(r.value) for r in outcome.records if r.kind == "match"]
    assert [len(value["matches"]) for value in values] == [2, 2]
    for value in values:
        Draft202012Validator(load("match")).validate(value)
        Draft202012Validator(closed(load("match"))).validate(value)
        assert value["matches"][0]["why"]


def test_dead_letters_have_the_headers_of_the_schema_alone(outcome: Any) -> None:
    letters = [record for record in outcome.records if record.kind == "rejected"]
    assert len(letters) == 3
    for letter in letters:
        headers = {name: value.decode() for name, value in letter.headers}
        Draft202012Validator(closed(load("rejected-headers"))).validate(headers)


def test_the_reasons_are_those_of_the_code() -> None:
    named = load("rejected-headers")["properties"]["reason"]["enum"]
    assert named == [reason.value for reason in Reason]


PROFILE = profile("storm", {"flood": "river flood"})
POST = {"id": "1", "text": "words"}
LABEL: dict[str, Any] = {
    "label": "on", "event": "storm", "post": {"id": "1", "platform": "x", "text": "rain"},
    "by": "ann", "at": "2026-03-01T10:00:00Z", "drawn": "given",
}  # fmt: skip
CERTIFIED = LABEL | {"drawn": "certify", "probability": 0.5}
FRAME = {"since": "2026-03-01T10:00:00Z", "cut": 0.4, "strata": {"near": [900, 40]}}
COUNT = {"stratum": "near", "posts": 1, "timestamp": 1_772_000_000_000, "frame": FRAME}
NOTE = {"note": "A rumour counts.", "event": "storm", "by": "ann", "at": "2026-03-01T10:00:00Z"}
COUNTED = CERTIFIED | {"drawn": "count", "count": COUNT}


def is_read(name: str, value: Any) -> bool:
    """Whether the reader of these records accepts one."""
    raw = json.dumps(value).encode()
    if name == "seed":
        return isinstance(parse_seed_record(b"s", raw), Seed)
    if name == "profile":
        return isinstance(parse_control_record(f"profile|{value['event']}".encode(), raw), Profile)
    if name == "post":
        return isinstance(read_post(raw, "plain"), Post)
    if name == "note":
        return isinstance(read_label(json.dumps([value["event"]]).encode(), raw), Note)
    key = [value["event"], value["post"]["platform"], value["post"]["id"], value["by"]]
    return isinstance(read_label(json.dumps(key, separators=(",", ":")).encode(), raw), Label)


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("seed", {"text": "An article"}, True),
        ("seed", {"text": "An article", "title": None, "event": "e", "url": "u", "more": 1}, True),
        ("seed", {"text": "a", "threshold": 1, "expires_at": "2026-03-01T10:00:00Z"}, True),
        ("seed", {}, False),
        ("seed", {"text": ""}, False),
        ("seed", {"text": "a", "threshold": 0}, False),
        ("seed", {"text": "a", "threshold": 1.01}, False),
        ("seed", {"text": "a", "expires_at": "tomorrow"}, False),
        ("seed", ["text"], False),
        ("profile", PROFILE, True),
        ("profile", PROFILE | {"threshold": 0.5, "promise": {"precision": 0.8}}, True),
        ("profile", PROFILE | {"made": None, "more": 1}, True),
        ("profile", PROFILE | {"event": ""}, False),
        ("profile", PROFILE | {"event": "e" * 241}, False),
        ("profile", PROFILE | {"seeds": {}}, False),
        ("profile", PROFILE | {"seeds": ["flood"]}, False),
        ("profile", PROFILE | {"threshold": 0}, False),
        ("profile", PROFILE | {"threshold": 0.5, "skim_threshold": -1}, True),
        ("profile", PROFILE | {"skim_threshold": 1.5}, False),
        ("post", POST, True),
        ("post", {"id": 1, "text": "words", "lang": None, "more": {}}, True),
        ("post", POST | {"author": "a", "created_at": "2026-03-01", "url": "u"}, True),
        ("post", POST | {"id": ""}, True),
        ("post", {"text": "words"}, True),
        ("post", {"id": "1"}, False),
        ("post", POST | {"text": 5}, False),
        ("post", POST | {"lang": 5}, False),
        ("note", NOTE, True),
        ("note", NOTE | {"more": 1}, True),
        ("note", NOTE | {"note": ""}, False),
        ("note", NOTE | {"note": "n" * 4_001}, False),
        ("note", NOTE | {"by": ""}, False),
        ("note", NOTE | {"at": "noon"}, False),
        ("label", LABEL, True),
        ("label", CERTIFIED | {"score": 1.0000001, "more": 1}, True),
        ("label", LABEL | {"drawn": "learn", "probability": None, "seed_set": None}, True),
        ("label", LABEL | {"drawn": "certify"}, False),
        ("label", LABEL | {"drawn": "guess"}, False),
        ("label", LABEL | {"probability": 0}, False),
        ("label", LABEL | {"event": ""}, False),
        ("label", CERTIFIED | {"queue": {"nonce": "a", "until": "2026-03-01T10:00:00.000Z"}}, True),
        ("label", CERTIFIED | {"queue": {"nonce": "a", "until": "today"}}, False),
        ("label", CERTIFIED | {"queue": None}, False),
        ("label", COUNTED, True),
        ("label", LABEL | {"drawn": "count"}, False),
        ("label", CERTIFIED | {"drawn": "any", "score": None}, True),
        ("label", LABEL | {"drawn": "any"}, False),
        ("label", COUNTED | {"count": COUNT | {"posts": 0}}, False),
        ("label", COUNTED | {"count": COUNT | {"stratum": "far"}}, False),
        ("label", COUNTED | {"count": COUNT | {"frame": FRAME | {"since": "today"}}}, False),
        ("label", COUNTED | {"count": COUNT | {"frame": FRAME | {"cut": 2}}}, False),
        (
            "label",
            COUNTED | {"count": COUNT | {"frame": FRAME | {"strata": {"far": [1, 1]}}}},
            False,
        ),
        ("label", COUNTED | {"count": COUNT | {"frame": FRAME | {"strata": {"near": [9]}}}}, False),
        ("label", LABEL | {"post": {"id": "", "platform": "x", "text": ""}}, False),
        ("label", LABEL | {"post": {"id": "1", "platform": "myspace", "text": ""}}, False),
    ],
)
def test_the_schema_and_the_reader_of_a_topic_agree(name: str, value: Any, good: bool) -> None:
    assert Draft202012Validator(load(name)).is_valid(value) == good
    assert is_read(name, value) == good


def test_written_profiles_have_the_keys_of_the_schema() -> None:
    numbers = {"threshold": 0.5, "skim_threshold": 0.25}
    made = profile("storm", {"flood": "river flood"}, **numbers, promise={})
    record = Profile(**made | {"before": (made,)}).record()
    schema = load("profile")
    assert set(record) == set(schema["properties"])
    assert set(record["made"]) == set(schema["properties"]["made"]["properties"])


def test_written_labels_have_the_keys_of_the_schema() -> None:
    written = json.loads(Label(**LABEL | {"post": Post("1", "x", "rain", "ann")}).value)
    Draft202012Validator(closed(load("label"))).validate(written)
    assert set(written) == set(load("label")["properties"])


def test_written_deletions_have_the_keys_of_the_schema_and_no_match_is_one(outcome: Any) -> None:
    written = json.loads(encode_deletion(("mastodon", "12"), "2026-03-01T10:00:00.000Z"))
    Draft202012Validator(load("deletion")).validate(written)
    Draft202012Validator(closed(load("deletion"))).validate(written)
    match = json.loads(outcome.records[0].value)
    assert not Draft202012Validator(load("deletion")).is_valid(match | written)
    shown = redact(msgspec.convert(match, MatchRecord))
    Draft202012Validator(closed(load("match"))).validate(json.loads(msgspec.json.encode(shown)))


def references(part: Any) -> set[str]:
    if isinstance(part, list):
        return set().union(*map(references, part))
    if not isinstance(part, dict):
        return set()
    own = {part["$ref"]} if isinstance(part.get("$ref"), str) else set()
    return own.union(*map(references, part.values()))


def test_asyncapi_names_the_topics_and_every_schema() -> None:
    document = yaml.safe_load((SCHEMAS / "asyncapi.yaml").read_text("utf-8"))
    names = TopicsConfig()
    assert {key: channel["address"] for key, channel in document["channels"].items()} == {
        key: getattr(names, key) for key in ("posts", "seeds", "matches", "rejected", "labels")
    }
    result = references(document)
    assert {f"./{name}.json" for name in NAMES} == {ref for ref in result if ref[0] == "."}
    for ref in result:
        part: Any = document
        for step in ref.removeprefix("#/").split("/") if ref[0] == "#" else ():
            part = part[step]
        assert part
