"""`newsift bench peers`: the worker beside what a user would write, on one broker."""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log, sqrt
from pathlib import Path
from statistics import median
from zipfile import BadZipFile

import msgspec
import numpy as np

from bench.measure import Cell, NotAvailable, Report, ResultTable, interleave, ratio
from bench.peer_programs import CLIENTS, MiniLM, PeerJob
from bench.programs import Start, running_peer, running_worker, speed_of
from bench.texts import read_articles, read_posts
from bench.topics import (
    FEW,
    POSTS,
    BenchTopics,
    broker,
    post_records,
    seed_records,
    where,
)
from encoder.errors import InputError
from encoder.model.weights import F32
from train.data.readers import TrainingArticle
from train.teacher.minilm import whole

SEEDS = "seeds"
ARTICLE_PIECES = 256
SAMPLE = 16_384  # posts that a peer's thresholds are taken from
SHARE = 0.001  # of the posts that match a seed, as with automatic thresholds
WORDS = 200  # of an article, at most
WORD = re.compile(r"\w+(?:['’]\w+)*")


@dataclass(frozen=True, slots=True)
class PeersOptions:
    kafka: str | None
    data: Path | None
    minilm: Path | None
    lucene: Path | None
    rounds: int
    seconds: float
    posts: int


def measure_peers(options: PeersOptions, report: Report) -> list[ResultTable]:
    """The speed of newsift and of the peers."""
    texts, source = read_posts(options.data, POSTS)
    articles = [TrainingArticle(*article) for article in read_articles(options.data, FEW)]
    with (
        broker(options.kafka) as kafka,
        tempfile.TemporaryDirectory() as folder,
    ):
        starts: dict[str, Start] = {
            f"newsift, {reader}": partial(running_worker, seeds=SEEDS, settings={"reader": reader})
            for reader in ("read", "skim")
        }
        if options.minilm:
            starts |= minilm_starts(options.minilm, texts, articles, Path(folder))
        if options.lucene:
            starts |= lucene_starts(options.lucene, texts, articles, Path(folder))
        topics = BenchTopics.create(kafka, {SEEDS: seed_records(articles)})
        return [
            where(options.kafka, len(texts), len(articles), source),
            peer_speeds(options, topics, texts, starts, report),
        ]


def minilm_starts(
    jar: Path, texts: Sequence[str], articles: Sequence[TrainingArticle], folder: Path
) -> dict[str, Start]:
    """MiniLM with each Python client; articles are read in chunks, as by newsift's teacher."""
    minilm = open_minilm(jar)
    seeds = whole(articles, lambda parts: minilm.texts(parts, ARTICLE_PIECES))
    file = folder / "minilm.npy"
    np.save(file, seeds)
    cuts = thresholds_of(minilm.texts(texts[:SAMPLE]) @ seeds.T)
    job = PeerJob(seeds=str(file), thresholds=cuts, jar=str(jar))
    program = (sys.executable, "-m", "bench.peer_programs")
    return {
        f"{client}, MiniLM int8": partial(running_peer, command=(*program, client), job=job)
        for client in CLIENTS
    }


def open_minilm(jar: Path) -> MiniLM:
    try:
        return MiniLM(jar)
    except ImportError as error:
        raise NotAvailable(f"{error.name} is not installed; call `make peers`") from error
    except (BadZipFile, ValueError) as error:
        raise InputError(
            f"--minilm: {jar} is not langchain4j's jar of all-MiniLM-L6-v2-q ({error})"
        ) from error


def lucene_starts(
    target: Path, texts: Sequence[str], articles: Sequence[TrainingArticle], folder: Path
) -> dict[str, Start]:
    """Lucene's monitor; idf comes from the posts."""
    words = LuceneWords(target, texts[:SAMPLE])
    file = folder / "queries"
    words.write_queries(articles, file)
    cuts = thresholds_of(words.score(texts[:SAMPLE], articles))
    job = PeerJob(seeds=str(file), thresholds=cuts)
    return {"Java, Lucene's monitor": partial(running_peer, command=words.command, job=job)}


def thresholds_of(scores: F32) -> tuple[float, ...]:
    """The score that the same share of the posts reaches, for each seed: scores are [n, k]."""
    return tuple(np.quantile(scores, 1 - SHARE, axis=0, method="higher").tolist())


class LuceneWords:
    """Words alone: the words of articles as queries of Lucene's monitor, a program in Java.

    Scores by tf-idf weights of an article's words and BM25's saturation in a post.
    """

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


def peer_speeds(
    options: PeersOptions, topics: BenchTopics, texts: Sequence[str], starts: Mapping[str, Start],
    report: Report,
) -> ResultTable:  # fmt: skip
    """Every program once a round, for the same time at most."""
    report(f"publishing {options.posts:,} posts")
    topics.publish("posts", post_records(texts, options.posts))
    runs = {
        name: partial(speed_of, start, topics, options.posts, options.seconds)
        for name, start in starts.items()
    }
    results = interleave(runs, options.rounds, report)
    read, skim = (results[f"newsift, {reader}"] for reader in ("read", "skim"))
    rows: list[tuple[Cell, ...]] = []
    for name, speeds in results.items():
        rates, cpu = [speed.rate for speed in speeds], median(speed.cpu or 0.0 for speed in speeds)
        ratios = (ratio([speed.rate for speed in own], rates) for own in (read, skim))
        rows.append((name, median(rates), *ratios, cpu, speeds[-1].resident))
    header = ("program", "posts/s", "read is × as fast", "skim is × as fast", "CPU µs a post", "MB")
    return ResultTable("peers", "The same posts and articles, medians of the rounds", header, rows)
