"""A ferry that burns: two articles on it, and the sample posts, of which some are on it."""

import json
from pathlib import Path

import worker
from tests.worker.kafka_side import POSTS, SEEDS, Kafka

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


def add_seeds(kafka: Kafka, event: str = "ferry") -> None:
    for name, (title, text) in ARTICLES.items():
        value = json.dumps({"title": title, "text": text, "event": event})
        kafka.send(SEEDS, value.encode(), name.encode())


def add_posts(kafka: Kafka, on: bool = True) -> int:
    """Publish the sample posts, with or without those on the event, and count them."""
    stored = [post for post in sample_posts() if on or not is_on(post)]
    kafka.fill(POSTS, [json.dumps(post).encode() for post in stored], partition=1)
    return len(stored)
