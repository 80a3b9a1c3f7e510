"""`newsift bench peers`: the worker beside what a user would write, on one broker."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median
from zipfile import BadZipFile

import msgspec
import numpy as np

import encoder
from bench.lucene_words import LuceneWords
from bench.measure import Cell, NotAvailable, Report, ResultTable, describe, percentile
from bench.peer_programs import CLIENTS, MiniLM, PeerJob
from bench.stream import (
    FEW,
    MODEL,
    PARTITIONS,
    POSTS,
    SHARE,
    BenchTopics,
    Record,
    Speed,
    WatchedWorker,
    broker,
    latencies,
    post_records,
    running_worker,
    seed_records,
    threshold_for,
    watch,
)
from bench.texts import ROOT, read_articles, read_posts
from encoder.errors import InputError
from encoder.model.weights import F32
from train.data.readers import SkippedRows, TrainingArticle, split_of_event
from train.protocol.peers import Scorer, encoder_scorer
from train.protocol.sets import Scores, crisis_figures, read_crises, threshold_figures
from train.teacher.minilm import whole

SAMPLE = 4_096  # posts that the threshold of equal matches is taken from
SEEDS = "seeds"
RATE = 1_000  # posts a second, for the latency
ARTICLE_PIECES = 256
WARM_S = 15.0  # until a program has its partitions
PASS = 0.001  # of everyday posts, at each article's threshold
QUALITY_FIGURES = {
    "recall": "recall at 1 in 1,000", "precision": "precision there, 1 in 26",
    "P@R80": "precision at recall 80", "AUC off": "AUC off-topic",
    "AUC background": "AUC background",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Peer:
    """Scores that a user could choose instead of newsift's, and the programs with them."""

    name: str
    score: Scorer
    write_seeds: Callable[[Sequence[TrainingArticle], Path], None]
    programs: Mapping[str, Sequence[str]]  # by their names
    jar: str = ""


@dataclass(frozen=True, slots=True)
class PeerProcess:
    """A peer's program as a WatchedProcess."""

    process: "subprocess.Popen[bytes]"

    @property
    def pid(self) -> int:
        return self.process.pid

    def check(self) -> None:
        code = self.process.poll()
        if code is not None:
            raise NotAvailable(f"a peer's program ended with exit code {code}; see its output")

    def wait_until_ready(self, patience: float) -> float:
        """Check that it runs; it is ready at its first commit, which `watch` awaits."""
        self.check()
        return 0.0


Start = Callable[[BenchTopics], AbstractContextManager[WatchedWorker]]


@dataclass(frozen=True, slots=True)
class PeersOptions:
    kafka: str | None
    data: Path
    minilm: Path | None
    lucene: Path | None
    rounds: int
    seconds: float
    posts: int


def measure_peers(options: PeersOptions, report: Report) -> list[ResultTable]:
    """Speed, latency and quality of newsift and of the peers."""
    texts, source = read_posts(options.data, POSTS)
    articles = [TrainingArticle(*article) for article in read_articles(options.data, FEW)]
    with (
        broker(options.kafka) as kafka,
        encoder.load(MODEL, device="cpu") as enc,
        tempfile.TemporaryDirectory() as folder,
    ):
        threshold = threshold_for(enc, texts, articles, SHARE)
        peers = [minilm_peer(options.minilm)] if options.minilm else []
        peers += [lucene_peer(options.lucene, texts)] if options.lucene else []
        starts: dict[str, Start] = {"newsift": partial(running_worker, seeds=SEEDS)}
        starts |= peer_starts(peers, texts, articles, Path(folder))
        seeds = list(seed_records(articles, threshold))
        where = ResultTable.where(describe() | {
            "broker": options.kafka or "the embedded one; a real Kafka by --kafka",
            "texts": f"{len(texts):,} posts, {len(articles)} articles: {source}",
            "matches": f"thresholds set so that {SHARE:.0%} of the posts match",
        })  # fmt: skip
        scorers: dict[str, Scorer] = {"newsift": encoder_scorer(enc)}
        scorers |= {peer.name: peer.score for peer in peers}
        return [
            where,
            speed(options, kafka, starts, texts, seeds, report),
            quality(options.data, scorers, report),
        ]


def minilm_peer(jar: Path) -> Peer:
    """MiniLM with each Python client; articles are read in chunks, as by newsift's teacher."""
    try:
        minilm = MiniLM(jar)
    except ImportError as error:
        raise NotAvailable(f"{error.name} is not installed; call `make peers`") from error
    except (BadZipFile, ValueError) as error:
        raise InputError(
            f"--minilm: {jar} is not langchain4j's jar of all-MiniLM-L6-v2-q ({error})"
        ) from error

    def articles(seeds: Sequence[TrainingArticle]) -> F32:
        return whole(seeds, lambda parts: minilm.texts(parts, ARTICLE_PIECES))

    def cosines(texts: Sequence[str], seeds: Sequence[TrainingArticle]) -> F32:
        scores: F32 = minilm.texts(texts) @ articles(seeds).T  # [n, k]
        return scores

    def write_seeds(seeds: Sequence[TrainingArticle], file: Path) -> None:
        with file.open("wb") as out:
            np.save(out, articles(seeds))

    programs = {
        f"{client}, MiniLM int8": (sys.executable, "-m", "bench.peer_programs", client)
        for client in CLIENTS
    }
    return Peer("MiniLM int8", cosines, write_seeds, programs, str(jar))


def lucene_peer(target: Path, texts: Sequence[str]) -> Peer:
    """Lucene's monitor; idf comes from the posts."""
    words = LuceneWords(target, texts[:SAMPLE])
    programs = {"Java, Lucene's monitor": words.command}
    return Peer("Lucene, words", words.score, words.write_queries, programs)


def peer_starts(
    peers: Sequence[Peer],
    texts: Sequence[str],
    articles: Sequence[TrainingArticle],
    folder: Path,
) -> dict[str, Start]:
    """A function that starts each program, by its name."""
    starts: dict[str, Start] = {}
    for number, peer in enumerate(peers):
        best = peer.score(texts[:SAMPLE], articles).max(1)
        threshold = float(np.quantile(best, 1 - SHARE))
        file = folder / f"seeds-{number}"
        peer.write_seeds(articles, file)
        for name, command in peer.programs.items():
            starts[name] = partial(running_peer, peer, command, file, threshold)
    return starts


@contextmanager
def running_peer(
    peer: Peer, command: Sequence[str], seeds: Path, threshold: float, topics: BenchTopics
) -> Iterator[WatchedWorker]:
    """A peer's program, for the length of the block."""
    group = f"{topics.prefix}-peer-{time.time_ns():x}"
    job = PeerJob(
        kafka=topics.kafka, group=group, posts=topics.name("posts"), matches=topics.name("matches"),
        seeds=str(seeds), threshold=threshold, jar=peer.jar,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            command,
            env=os.environ | {
                "BENCH_PEER": msgspec.json.encode(job).decode(), "PYTHONPATH": str(ROOT),
            },
            cwd=folder, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield WatchedWorker(PeerProcess(process), group)
        finally:
            process.kill()
            process.wait()


def speed(
    options: PeersOptions, kafka: str, starts: Mapping[str, Start], texts: Sequence[str],
    seeds: Sequence[Record], report: Report,
) -> ResultTable:  # fmt: skip
    """Every program once a round over the same posts, for the same time at most."""
    topics = make_topics(kafka, seeds)
    report(f"publishing {options.posts:,} posts")
    topics.publish("posts", post_records(texts, options.posts))
    runs: dict[str, list[Speed]] = {name: [] for name in starts}
    memory: dict[str, float] = {}
    for number in range(options.rounds):
        for name, start in starts.items():
            report(f"round {number + 1} of {options.rounds}: {name}")
            with start(topics) as program:
                program.wait_until_ready()
                runs[name].append(watch(program, topics, options.posts, options.seconds))
                memory[name] = program.resident()
    rows: list[tuple[Cell, ...]] = []
    for name, own_runs in runs.items():
        report(f"latency of {name}")
        rate = median(run.rate for run in own_runs)
        slower = median(a.rate / b.rate for a, b in zip(runs["newsift"], own_runs, strict=True))
        costs = (median(run.cpu or 0.0 for run in own_runs), memory[name])
        late: tuple[float | None, ...] = (None, None)
        if rate > 1.2 * RATE:
            late = latency(make_topics(kafka, seeds), starts[name], texts, options.seconds)
        rows.append((name, rate, slower, *costs, *late))
    header = (
        "program", "posts/s", "newsift is × as fast", "CPU µs a post", "MB",
        f"p50 ms at {RATE:,}/s", "p99 ms",
    )  # fmt: skip
    return ResultTable("peers", "The same posts and articles, medians of the rounds", header, rows)


def make_topics(kafka: str, seeds: Sequence[Record]) -> BenchTopics:
    """New topics, and the articles as newsift's seeds."""
    topics = BenchTopics.fresh(kafka)
    for role in ("posts", "matches", "rejected"):
        topics.create(role, PARTITIONS, {})
    topics.create(SEEDS, 1, {"cleanup.policy": "compact"})
    topics.publish(SEEDS, seeds)
    return topics


def latency(
    topics: BenchTopics, start: Start, texts: Sequence[str], seconds: float
) -> tuple[float, float]:
    """Milliseconds from a post to its match: the median and the 99th percentile."""
    with start(topics) as program:
        program.wait_until_ready()
        values = latencies(topics, program, texts, RATE, seconds, WARM_S)
    if not values:
        raise NotAvailable(f"no match came in {seconds:g} s; give more with --seconds")
    return percentile(values, 0.5), percentile(values, 0.99)


def quality(data: Path, scorers: Mapping[str, Scorer], report: Report) -> ResultTable:
    """The quality of the scores on the labelled crises of the test split: means, × 100.

    Half of the everyday posts of each file sets a threshold for each article, the other half
    judges.
    """
    crises = [
        crisis for crisis in read_crises(data, SkippedRows())
        if split_of_event(crisis.name) == "test"
    ]  # fmt: skip
    if not crises:
        raise InputError(f"--data: {data}/crisis has no labelled event of the test split")
    rows: list[tuple[Cell, ...]] = []
    for name, score in scorers.items():
        figures: dict[str, list[float]] = {}
        for crisis in crises:
            report(f"{name}: {crisis.name}")
            calibration, judging = crisis.background[::2], crisis.background[1::2]  # of each file
            evaluation = crisis._replace(background=judging)
            own_thresholds = np.quantile(score(calibration, crisis.seeds), 1 - PASS, axis=0)
            scores = score(evaluation.posts, crisis.seeds)
            own = crisis_figures(Scores.of(scores, evaluation))
            own |= threshold_figures(scores, own_thresholds.astype(np.float32), evaluation)
            for figure in QUALITY_FIGURES:
                figures.setdefault(figure, []).append(own[figure])
        rows.append((name, *(100 * mean(figures[figure]) for figure in QUALITY_FIGURES)))
    events = ", ".join(crisis.name for crisis in crises)
    title = f"Quality on labelled crises, × 100: {events}"
    return ResultTable("quality", title, ("scores", *QUALITY_FIGURES.values()), rows)
