"""The sample posts and articles: invented, and labelled with the event they are about."""

import json
from dataclasses import dataclass
from pathlib import Path

from worker.files.articles.read import read_article

SAMPLES = Path(__file__).parents[2] / "samples"


@dataclass(frozen=True, slots=True)
class SamplePost:
    """A post written for the demo, and the event it is about, if any."""

    id: int
    text: str
    event: str | None


def read_posts(file: Path = SAMPLES / "posts.jsonl") -> list[SamplePost]:
    """The sample posts with their labels."""
    rows = (json.loads(line) for line in file.read_text("utf-8").splitlines())
    return [SamplePost(int(row["id"]), row["text"], row["event"]) for row in rows]


def read_articles(folder: Path = SAMPLES / "seeds") -> dict[str, tuple[str, str]]:
    """Title and text of the sample articles, by event."""
    found = {file.stem: read_article(file) for file in sorted(folder.glob("*.md"))}
    return {name: (article.title, article.text) for name, article in found.items()}


def seed_record(title: str, text: str) -> bytes:
    """The control record that makes an article a seed."""
    return json.dumps({"title": title, "text": text}, ensure_ascii=False).encode()
