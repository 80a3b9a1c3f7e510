import json
from pathlib import Path
from typing import Any

import pytest

from tests.newsift.cli.events.ferry import ARTICLES, add_posts, add_seeds, is_on, sample_posts
from tests.newsift.cli.test_matches import rows
from tests.worker.fake import Command
from tests.worker.kafka_side import Kafka


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "seeds").mkdir()
    for name, (title, text) in ARTICLES.items():
        record = {"title": title, "text": text, "event": "ferry"}
        (tmp_path / "seeds" / f"{name}.json").write_text(json.dumps(record))
    lines = [json.dumps(post) for post in sample_posts()]
    (tmp_path / "posts.jsonl").write_text("\n".join([*lines, "{broken"]) + "\n")
    return tmp_path


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [match["match_id"] for row in found for match in row["matches"]]


def test_learns_the_same_from_files_and_topic(newsift: Command, folder: Path, kafka: Kafka) -> None:
    posts, seeds = folder / "posts.jsonl", ("--seeds", folder / "seeds")
    plain = rows(newsift("filter", posts, *seeds).out)
    result = rows(newsift("filter", posts, *seeds, "--learn").out)
    assert {match["seed_id"] for row in result for match in row["matches"]} == {"profile|ferry"}
    on = {str(post["id"]) for post in sample_posts() if is_on(post)}
    wrong = [len({row["post"]["id"] for row in each} - on) for each in (plain, result)]
    right = [len({row["post"]["id"] for row in each} & on) for each in (plain, result)]
    assert wrong[1] < wrong[0]
    assert right[1] > 0.9 * right[0]
    other = newsift("filter", "-", *seeds, "--learn-from", posts, stdin=posts.read_bytes())
    assert ids(rows(other.out)) == ids(result)
    add_seeds(kafka)
    add_posts(kafka)
    (row,) = rows(newsift("events", "learn", "ferry", "--yes", "--json").out)
    assert {m["seed_version"] for each in result for m in each["matches"]} == {row["version"]}
