"""Words alone: the words of articles as queries of Lucene's monitor, a program in Java.

`mvn -q -f bench/lucene package` builds the program.
"""

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from math import log, sqrt
from pathlib import Path

import msgspec
import numpy as np

from encoder.errors import InputError
from encoder.model.weights import F32
from train.data.readers import TrainingArticle

WORDS = 200  # of an article, at most
WORD = re.compile(r"\w+(?:['’]\w+)*")


class LuceneWords:
    """Scores by tf-idf weights of an article's words and BM25's saturation in a post."""

    def __init__(self, target: Path, background: Sequence[str]) -> None:
        if not list(target.glob("lucene-peer-*.jar")):
            raise InputError(
                f"--lucene: {target} has no lucene-peer jar; `mvn -q -f bench/lucene package` "
                "makes it in bench/lucene/target"
            )
        jars = f"{target.resolve()}/*:{target.resolve()}/dependency/*"
        self.command = ("java", "-Xmx512m", "-cp", jars, "LucenePeer")
        self._count = len(background)
        self._posts = Counter(word for text in background for word in set(words_of(text)))

    def score(self, posts: Sequence[str], articles: Sequence[TrainingArticle]) -> F32:
        """Scores by the program itself: [posts, articles]."""
        with tempfile.TemporaryDirectory() as folder:
            queries, texts, out = (Path(folder) / name for name in ("queries", "texts", "scores"))
            self.write_queries(articles, queries)
            texts.write_bytes(b"".join(msgspec.json.encode(text) + b"\n" for text in posts))
            subprocess.run([*self.command, "score", queries, texts, out], check=True)
            scores = np.fromfile(out, ">f4").astype(np.float32)
        return scores.reshape(len(posts), len(articles))

    def write_queries(self, articles: Sequence[TrainingArticle], file: Path) -> None:
        """Write the weights of each article's words, a line for each."""
        weights = (self.weights(f"{title}. {text}") for title, text in articles)
        file.write_bytes(b"".join(msgspec.json.encode(words) + b"\n" for words in weights))

    def weights(self, text: str) -> dict[str, float]:
        """The heaviest words of a text with their weights, of length one together."""
        weights = {
            word: (1 + log(times)) * log(self._count / (1 + self._posts[word]) + 1)
            for word, times in Counter(words_of(text)).items()
        }
        heaviest = sorted(weights.items(), key=lambda pair: (-pair[1], pair[0]))[:WORDS]
        length = sqrt(sum(weight**2 for _, weight in heaviest))
        return {word: weight / length for word, weight in heaviest}


def words_of(text: str) -> list[str]:
    return WORD.findall(text.lower())
