"""A background in the making: posts drawn, embedded, left out where need be, and written."""

import json
import time
from collections import Counter
from pathlib import Path

import numpy as np

from encoder.embeddings import Embeddings
from encoder.embeddings_file import saving
from encoder.encoder import Encoder
from worker.background.draw import DistinctPost, Draw, in_turns
from worker.background.near_seeds import speak_of_seeds
from worker.cli.background.sources import Source
from worker.cli.terminal import ProgressLine
from worker.posts.read import Post
from worker.posts.times import rfc3339
from worker.seeds.embedder import SeedEmbedder, problems
from worker.seeds.set import SeedBook

NAMED = 20  # languages
LONGEST = 20  # characters of the name of one


class Build:
    """What becomes of the posts on their way into a background."""

    vectors: Embeddings

    def __init__(self, most: int) -> None:
        self._most, self._draw = most, Draw(most)
        self._times: tuple[int, int] | None = None
        self._posts: list[DistinctPost] = []
        self._no_post = self._near = 0

    def read(self, source: Source) -> None:
        """Draw from all that is found."""
        progress = ProgressLine(source.share)
        for at, reading in source:
            progress.add(1, "messages read")
            if not isinstance(reading, Post):
                self._no_post += 1
                continue
            self._draw.add(reading)
            if at > 0:
                first, last = self._times or (at, at)
                self._times = min(first, at), max(last, at)

    def embed(self, enc: Encoder, book: SeedBook, rate: float) -> None:
        """Embed what was drawn, and keep what has words, is near no seed, and whose turn it is."""
        drawn = self._draw.posts()
        vectors = enc.posts([post.text for post in drawn])
        seeds = SeedEmbedder(enc, rate, threshold=1.0).make(book)
        close = speak_of_seeds(vectors, seeds.embeddings, enc, rate)
        odd = problems(vectors)
        rows = [row for row in np.flatnonzero(~close).tolist() if row not in odd]
        turns = in_turns([drawn[row] for row in rows], self._most)
        self._near = int(close.sum())
        self._posts = [drawn[rows[at]] for at in turns]
        self.vectors = vectors[[rows[at] for at in turns]]

    def told(self) -> str:
        """What was read, and what became of it."""
        draw = self._draw
        parts = {
            "no posts": self._no_post,
            "copies": draw.copies,
            "near a seed, which would raise its threshold": self._near,
            "beyond --posts": draw.read - draw.copies - self._near - len(self._posts),
        }
        left = ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)
        return f"{draw.read + self._no_post:,} messages read; left out: {left or 'none'}"

    def save(self, out: Path, source: str) -> None:
        """Write the file, with a note of where its posts are from."""
        enc, times = self.vectors, self._times
        note = {"source": source, "made": rfc3339(int(time.time() * 1000))}
        if times:
            note |= dict(zip(("first", "last"), map(rfc3339, times), strict=True))
        platforms = Counter(post.platform for post in self._posts)
        languages = Counter(post.lang[:LONGEST] for post in self._posts if post.lang)
        authors = Counter((post.platform, post.author) for post in self._posts if post.author)
        counts = {"platforms": platforms, "languages": languages}
        note |= {name: json.dumps(dict(count.most_common(NAMED))) for name, count in counts.items()}
        note["authors"] = str(len(authors))
        with saving(out.resolve(), enc.dense.shape[1], enc.mix, enc.digest, note) as file:
            file.add(enc.dense, enc.lexical)
