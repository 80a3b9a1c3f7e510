"""A ferry that burns: two articles on it, and the sample posts, of which some are on it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import worker
from encoder import Encoder
from newsift.files.rows import parse_match_record
from newsift.operations.times import now_text
from newsift.statistics.labels import Label
from newsift.statistics.queues import is_certify_post
from tests.worker.command_topics import LABELS, MATCHES, POSTS, SEEDS, Kafka
from tests.worker.small_encoder import ControlTopic
from worker.match.near import draw_key
from worker.match.pipeline import Pipeline
from worker.match.records import MatchRecord
from worker.seeds.automatic import ThresholdRules
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.profile import Profile, parse_control_record
from worker.seeds.set import SeedSet

HERE = Path(worker.__file__).parent / "samples"
FIRE = (
    "A fire that broke out on the car deck of the ferry Astrid Vane early on Tuesday forced 412 "
    "passengers and crew into lifeboats in the Sound of Tarrow, the coastguard said. It was the "
    "second accident of a ferry in that strait within a year."
)
RESCUE = (
    "Rescued passengers of the Astrid Vane told of smoke on the car deck. Helicopters and boats "
    "searched the Sound of Tarrow for nine people who are missing after the ferry fire. They "
    "were taken to a school, where families waited for them."
)
ARTICLES = {
    "fire": ("Fire on the ferry Astrid Vane off Port Maren leaves nine missing", FIRE),
    "rescue": ("Lifeboats reach Port Maren with passengers of the burning ferry", RESCUE),
}


def sample_posts() -> list[dict[str, str | None]]:
    lines = (HERE / "posts.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def is_on(post: dict[str, str | None]) -> bool:
    return post["event"] == "ferry-fire"


def add_seeds(kafka: Kafka) -> None:
    for name, (title, text) in ARTICLES.items():
        value = json.dumps({"title": title, "text": text, "event": "ferry"})
        kafka.send(SEEDS, value.encode(), name.encode())


def add_posts(kafka: Kafka) -> int:
    """Publish the sample posts, and count them."""
    stored = sample_posts()
    kafka.fill(POSTS, [json.dumps(post).encode() for post in stored], partition=1)
    return len(stored)


KEY = b"profile|ferry"
PLACES = ("the car deck", "Port Maren", "the Sound of Tarrow", "the harbour", "deck two")
PEOPLE = ("passengers", "nine people", "my aunt", "the crew", "two lifeboats", "a lorry driver")


def versions(kafka: Kafka) -> list[Profile]:
    """The profiles that were published, the newest last."""
    values = [record.value for record in kafka.records(SEEDS) if record.key == KEY]
    result = [parse_control_record(KEY, value) for value in values if value]
    assert all(isinstance(each, Profile) for each in result)
    return [each for each in result if isinstance(each, Profile)]


def published(kafka: Kafka) -> Profile:
    return versions(kafka)[-1]


def add_ferry_posts(kafka: Kafka) -> None:
    texts = [f"Fire on the ferry Astrid Vane: {who} at {where}, {n} hours"
             for n, who in enumerate(PEOPLE) for where in PLACES for _ in range(2)]  # fmt: skip
    values = [json.dumps({"id": f"p{n}", "text": text}).encode() for n, text in enumerate(texts)]
    kafka.fill(POSTS, values)


def seed_set(kafka: Kafka, enc: Encoder, without: bytes | None = None) -> SeedSet:
    """The seeds that a worker makes of the topic, or of it without the records of a key."""
    book = ControlTopic()
    for record in kafka.records(SEEDS):
        if record.key != without:
            book.put(record.key, record.value)
    return SeedEmbedder(enc, ThresholdRules(0.001)).make(book.snapshot())


def match_all(kafka: Kafka, enc: Encoder) -> list[MatchRecord]:
    made = Pipeline(enc).run(kafka.records(POSTS), seed_set(kafka, enc), now_text).records
    kafka.fill(MATCHES, [each.value for each in made if each.value])
    return [result for each in made if (result := parse_match_record(each.value))]


def certifying(records: list[MatchRecord]) -> Iterator[MatchRecord]:
    own = [r for r in records if is_certify_post(r.post.post_id)]
    return iter(sorted(own, key=lambda r: draw_key((r.post.platform, r.post.id))))


def first_cut(own: list[MatchRecord]) -> float:
    """The score of the 25th highest: the strictest threshold that is looked at."""
    return sorted((record.matches[0].score for record in own), reverse=True)[24]


def label(kafka: Kafka, record: MatchRecord, verdict: Any, by: str = "anna") -> None:
    score = record.matches[0].score
    output = Label(verdict, "ferry", record.post, by, now_text(), "certify", 0.5, score)
    kafka.send(LABELS, output.value, output.key)
