"""`newsift demo`: sample posts filtered by sample articles, offline."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

import encoder
from encoder import Embeddings, Encoder
from encoder.weights import F32
from worker.cli.common import colour_wanted, model_options, read_article
from worker.cli.lit import lit

SAMPLES = Path(__file__).parents[1] / "samples"
BATCH = 32
NEXT = """
Next:
  newsift explain "Smoke on the ferry, we are in the lifeboats" --article FILE
  newsift embed FILE --out posts.safetensors
  newsift bench encoder --quick
  newsift --help"""


@dataclass(frozen=True, slots=True)
class SamplePost:
    """A post written for the demo, and the event it is about, if any."""

    text: str
    event: str | None


@dataclass(frozen=True, slots=True)
class Match:
    """A post that reached the threshold of an event."""

    post: SamplePost
    event: int
    score: float


class Filter:
    """Seed articles that posts are compared with, a batch at a time, and the time that takes."""

    def __init__(self, enc: Encoder, articles: list[tuple[str, str]]) -> None:
        self.seeds: Embeddings = enc.articles(articles)
        self.thresholds: F32 = enc.thresholds(self.seeds)  # [seeds]
        self.seconds = 0.0
        self._enc = enc

    def matches(self, posts: list[SamplePost]) -> Iterator[Match]:
        """The matches of all posts, in the posts' order."""
        for start in range(0, len(posts), BATCH):
            batch = posts[start : start + BATCH]
            began = time.perf_counter()
            scores = self._enc.posts([post.text for post in batch]).similarity(self.seeds)
            reached = np.argwhere(scores >= self.thresholds)  # [matches, 2]
            self.seconds += time.perf_counter() - began
            for i, k in reached.tolist():
                yield Match(batch[i], k, float(scores[i, k]))


@click.command()
@model_options
def demo(model: str, device: str, threads: int | None) -> None:
    """Filter sample posts by sample articles: offline, nothing but this machine is used.

    Articles and posts are invented. A post matches where its score reaches the automatic
    threshold, which one everyday post in 1,000 would reach.
    """
    files = sorted((SAMPLES / "seeds").glob("*.md"))
    events = [file.stem for file in files]
    posts = read_posts(SAMPLES / "posts.jsonl")
    click.echo(f"{len(posts)} sample posts, {len(files)} sample articles, offline.", err=True)
    click.echo("Loading the model; the first start compiles it for this CPU.", err=True)
    enc = encoder.load(model, device=device, threads=threads)
    if enc.model.provenance.get("trained") is False:
        click.echo("This model is not trained yet: expect misses and false alarms.", err=True)
    click.echo(err=True)
    sieve = Filter(enc, [read_article(file) for file in files])
    found = []
    for match in sieve.matches(posts):
        words = lit(enc.explain(match.post.text, sieve.seeds, match.event), colour_wanted())
        click.echo(f"{match.score:.2f}  {events[match.event]:<18}{words}")
        found.append(match)
    click.echo()
    summarise(events, posts, found)
    click.echo(f"\n{len(posts)} posts embedded and compared in {sieve.seconds * 1e3:.0f} ms.")
    click.echo(NEXT, err=True)


def read_posts(file: Path) -> list[SamplePost]:
    """The sample posts with their labels."""
    rows = (json.loads(line) for line in file.read_text("utf-8").splitlines())
    return [SamplePost(row["text"], row["event"]) for row in rows]


def summarise(events: list[str], posts: list[SamplePost], found: list[Match]) -> None:
    """Print how the matches compare with the labels, event by event."""
    click.echo(f"{'event':<18}{'posts':>7}{'found':>7}{'precision':>11}{'recall':>8}")
    for k, event in enumerate(events):
        wanted = sum(post.event == event for post in posts)
        hits = [match.post.event == event for match in found if match.event == k]
        precision = f"{sum(hits) / len(hits):.2f}" if hits else "-"
        recall = f"{sum(hits) / wanted:.2f}"
        click.echo(f"{event:<18}{wanted:>7}{len(hits):>7}{precision:>11}{recall:>8}")
