"""A background of one's own: posts drawn from files or the topic, and their embeddings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random

import numpy as np

from encoder.embeddings import Background
from encoder.encoder import Encoder
from newsift.files.messages import FileMessage
from newsift.operations.messages import ProgressLine
from newsift.operations.times import now_text
from newsift.statistics.background import PostSampler, match_seeds, take_author_turns
from worker.config import Config
from worker.kafka.reading import StoredMessage, TopicReader, records_between, sample_spans
from worker.match.pipeline import read_safely
from worker.posts.compare import as_text, parse_parts
from worker.posts.languages import Languages
from worker.posts.read import Post, PostRules
from worker.posts.times import rfc3339
from worker.seeds.automatic import ThresholdRules
from worker.seeds.embedder import SeedEmbedder, row_problems
from worker.seeds.state import ControlState
from worker.text import plural

WINDOWS_PER_PARTITION = 64

Batches = Iterable[Sequence[StoredMessage | FileMessage]]
Share = Callable[[int], float]  # of all messages, by the number of those that were read


def topic_messages(cluster: TopicReader, config: Config, most: int) -> tuple[Batches, Share]:
    """About `most` messages of the posts topic, drawn uniformly from its offsets."""
    topic = config.topics.posts
    begins, ends = cluster.beginnings(topic), cluster.ends(topic)
    spans = sample_spans(begins, ends, most, WINDOWS_PER_PARTITION, Random())
    batches = chain.from_iterable(cluster.read(topic, *span) for span in spans)
    total = max(min(most, records_between(begins, ends)), 1)
    return batches, lambda count: count / total


class BackgroundSample:
    """Messages that were read, and the posts drawn from them."""

    def __init__(self, most: int) -> None:
        self.most, self.posts = most, PostSampler(most)
        self.times: tuple[int, int] | None = None  # the first and the last
        self.no_posts = 0

    def read(self, batches: Batches, share: Share, config: Config, form: str) -> None:
        rules = PostRules(form, config.limits, Languages.parse(config.posts.langs))
        compare, progress = parse_parts(config.posts.compare), ProgressLine(share)
        for message in chain.from_iterable(batches):
            progress.add(1, "messages read")
            if isinstance(message, FileMessage) and not message.value:
                reading = message.reading
            else:
                reading = read_safely(message.value, rules)
            if not isinstance(reading, Post):
                self.no_posts += 1
                continue
            self.posts.add(as_text(reading, compare))
            if (at := message.timestamp) > 0:
                first, last = self.times or (at, at)
                self.times = min(first, at), max(last, at)

    def embed(self, enc: Encoder, state: ControlState, rate: float) -> "DrawnBackground":
        """Without posts near a seed; authors take turns."""
        posts = self.posts.posts()
        vectors = enc.skim([post.text for post in posts])
        seeds = SeedEmbedder(enc, ThresholdRules(rate, threshold=1.0)).make(state)
        close = match_seeds(vectors, seeds.embeddings, enc, rate)
        unusable = row_problems(vectors)
        rows = [row for row in np.flatnonzero(~close).tolist() if row not in unusable]
        turns = take_author_turns([posts[row] for row in rows], self.most)
        near = int(close.sum())
        left_out = {
            "no posts": self.no_posts,
            "without words": self.posts.wordless + len(posts) - near - len(rows),
            "copies": self.posts.copies,
            "near a seed, which would raise its threshold": near,
        }
        read = self.posts.read + self.no_posts
        left_out["beyond --posts"] = read - sum(left_out.values()) - len(turns)
        drawn = [rows[turn] for turn in turns]
        skimmed = vectors[drawn]
        if enc.has_star:
            both = Background(enc.posts([posts[row].text for row in drawn]), skimmed)
        else:
            both = Background.of_one_reader(skimmed)
        return DrawnBackground(both, self.times, read, left_out)


@dataclass(frozen=True, slots=True)
class DrawnBackground:
    vectors: Background
    times: tuple[int, int] | None  # of the first and the last message, in milliseconds
    read: int
    left_out: Mapping[str, int]  # why, and how many

    def summary(self) -> str:
        counts = ", ".join(f"{count:,} {why}" for why, count in self.left_out.items() if count)
        return f"{plural(self.read, 'message')} read; left out: {counts or 'none'}"

    def save(self, out: Path, source: str) -> None:
        note = {"source": source, "made": now_text()}
        if self.times:
            note |= {"first": rfc3339(self.times[0]), "last": rfc3339(self.times[1])}
        self.vectors.save(out.resolve(), note)
