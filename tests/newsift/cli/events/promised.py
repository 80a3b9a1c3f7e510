"""Matches of the ferry's own profile, and labels of them: what a promise is made of."""

import json
from collections.abc import Iterator
from typing import Any

from encoder import Encoder
from newsift.files.rows import parse_match_record
from newsift.operations.times import now_text
from newsift.statistics.labels import Label
from newsift.statistics.queues import is_certify_post
from tests.worker.kafka_side import LABELS, MATCHES, POSTS, SEEDS, Kafka
from tests.worker.small import ControlTopic
from worker.match.pipeline import Pipeline
from worker.match.records import MatchRecord
from worker.match.reservoir import draw_key
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.profile import Profile, parse_control_record

KEY = b"profile|ferry"
PLACES = ("the car deck", "Port Maren", "the Sound of Tarrow", "the harbour", "deck two")
PEOPLE = ("passengers", "nine people", "my aunt", "the crew", "two lifeboats", "a lorry driver")


def published(kafka: Kafka) -> Profile:
    result = [record for record in kafka.records(SEEDS) if record.key == KEY]
    made = parse_control_record(KEY, result[-1].value)
    assert isinstance(made, Profile)
    return made


def add_ferry_posts(kafka: Kafka) -> None:
    texts = [f"Fire on the ferry Astrid Vane: {who} at {where}, {n} hours"
             for n, who in enumerate(PEOPLE) for where in PLACES for _ in range(2)]  # fmt: skip
    values = [json.dumps({"id": f"p{n}", "text": text}).encode() for n, text in enumerate(texts)]
    kafka.fill(POSTS, values)


def match_all(kafka: Kafka, enc: Encoder) -> list[MatchRecord]:
    book = ControlTopic()
    for record in kafka.records(SEEDS):
        book.put(record.key, record.value)
    seeds = SeedEmbedder(enc, 0.001, None).make(book.snapshot())
    made = Pipeline(enc).run(kafka.records(POSTS), seeds, now_text).records
    kafka.fill(MATCHES, [each.value for each in made if each.value])
    return [result for each in made if (result := parse_match_record(each.value))]


def certifying(records: list[MatchRecord]) -> Iterator[MatchRecord]:
    own = [r for r in records if is_certify_post((r.post.platform, r.post.id))]
    return iter(sorted(own, key=lambda r: draw_key((r.post.platform, r.post.id))))


def first_cut(own: list[MatchRecord]) -> float:
    """The score of the 25th highest: the strictest threshold that is looked at."""
    return sorted((record.matches[0].score for record in own), reverse=True)[24]


def label(kafka: Kafka, record: MatchRecord, verdict: Any, by: str = "anna") -> None:
    score = record.matches[0].score
    output = Label(verdict, "ferry", record.post, by, now_text(), "certify", 0.5, score)
    kafka.send(LABELS, output.value, output.key)
