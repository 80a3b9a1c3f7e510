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

from bench.measure import (
    Cell,
    NotAvailable,
    Report,
    ResultTable,
    interleave,
    percentile,
    ratio,
)
from bench.peer_programs import CLIENTS, PeerJob, PeerReader, open_transformer
from bench.programs import RATE, Start, latencies_of, running_peer, running_worker, speed_of
from bench.texts import read_articles, read_posts
from bench.topics import (
    FEW,
    POSTS,
    BenchTopics,
    Record,
    broker,
    post_records,
    seed_records,
    where,
)
from encoder.errors import InputError
from encoder.model.weights import F32
from train.data.readers import TrainingArticle
from train.teacher.minilm import Read

SEEDS = "seeds"
READ, SKIM = "newsift, read", "newsift, skim"
SAMPLE = 8_192  # posts that a peer's thresholds are taken from
SHARE = 0.001  # of the posts that match a seed, as with automatic thresholds
WORDS = 200  # of an article, at most
WORD = re.compile(r"\w+(?:['’]\w+)*")
HEADER = (
    "program", "posts/s", "read is × as fast", "skim is × as fast", "CPU µs a post", "MB",
    f"p50 ms at {RATE:,}/s", "p99 ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PeersOptions:
    kafka: str | None
    data: Path | None
    minilm: Path | None
    mpnet: bool
    lucene: Path | None
    rounds: int
    seconds: float
    posts: int


def measure_peers(options: PeersOptions, report: Report) -> list[ResultTable]:
    """The speed of newsift and of the peers."""
    texts, source = read_posts(options.data, POSTS)
    articles = [TrainingArticle(*article) for article in read_articles(options.data, FEW)]
    with broker(options.kafka) as kafka, tempfile.TemporaryDirectory() as folder:
        starts: dict[str, Start] = {
            name: partial(running_worker, seeds=SEEDS, settings={"reader": reader})
            for name, reader in ((READ, "read"), (SKIM, "skim"))
        }
        if options.lucene:
            starts |= lucene_starts(options.lucene, texts, articles, Path(folder))
        jars = [str(options.minilm)] if options.minilm else []
        for jar in [*jars, ""] if options.mpnet else jars:
            report(f"thresholds of {'MiniLM' if jar else 'MPNet'}")
            starts |= transformer_starts(jar, texts, articles, Path(folder))
        bench = PeersBench(options, kafka, texts, seed_records(articles), report)
        return [
            where(options.kafka, len(texts), len(articles), source),
            bench.table(starts),
        ]


def transformer_starts(
    jar: str, texts: Sequence[str], articles: Sequence[TrainingArticle], folder: Path
) -> dict[str, Start]:
    """A transformer and the words with each Python client: MiniLM of a jar, or MPNet."""
    name = "MiniLM int8" if jar else "MPNet"
    reader = PeerReader(open_minilm(jar) if jar else open_transformer(""))
    seeds, file = reader.articles(articles), folder / f"{name}.safetensors"
    seeds.save(file)
    cuts = thresholds_of(reader.posts(texts[:SAMPLE]).similarity(seeds))
    job = PeerJob(seeds=str(file), thresholds=cuts, jar=jar)
    program = (sys.executable, "-m", "bench.peer_programs")
    return {
        f"{client}, {name} and the words": partial(
            running_peer, command=(*program, client), job=job
        )
        for client in CLIENTS
    }


def open_minilm(jar: str) -> Read:
    try:
        return open_transformer(jar)
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


@dataclass(frozen=True, slots=True)
class PeersBench:
    """The same posts and articles for every program, on one broker."""

    options: PeersOptions
    kafka: str
    texts: Sequence[str]
    seeds: Sequence[Record]
    report: Report

    def table(self, starts: Mapping[str, Start]) -> ResultTable:
        """Every program once a round, for the same time at most; then the latencies."""
        topics, posts = BenchTopics.create(self.kafka, {SEEDS: self.seeds}), self.options.posts
        self.report(f"publishing {posts:,} posts")
        topics.publish("posts", post_records(self.texts, posts))
        distinct = min(posts, len(self.texts))  # newsift reads no text again that it read lately
        runs = {
            name: partial(
                speed_of, start, topics, distinct if name == READ else posts, self.options.seconds
            )
            for name, start in starts.items()
        }
        results = interleave(runs, self.options.rounds, self.report)
        read, skim = results[READ], results[SKIM]
        rows: list[tuple[Cell, ...]] = []
        for name, speeds in results.items():
            rates, cpu = [each.rate for each in speeds], median(each.cpu or 0.0 for each in speeds)
            ratios = (ratio([each.rate for each in own], rates) for own in (read, skim))
            latency = self.latency(name, starts[name]) if median(rates) >= RATE else (None, None)
            rows.append((name, median(rates), *ratios, cpu, speeds[-1].resident, *latency))
        return ResultTable(
            "peers", "The same posts and articles, medians of the rounds", HEADER, rows
        )

    def latency(self, name: str, start: Start) -> tuple[float, float]:
        """p50 and p99 from a post to its match, on topics of its own."""
        self.report(f"{RATE:,} posts a second: {name}")
        topics = BenchTopics.create(self.kafka, {SEEDS: self.seeds})
        times = latencies_of(start, topics, self.texts, self.options.seconds)
        return percentile(times, 0.5), percentile(times, 0.99)
