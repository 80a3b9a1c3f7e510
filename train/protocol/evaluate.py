"""Evaluate every scorer on every set, with bootstrap intervals of the differences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import encoder
from encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32
from encoder.support.files import cache_root
from train.data.corpus import read_corpus
from train.data.readers import SkippedRows, Split, split_of_event, story_key
from train.loop.bf16 import bf16_autocast
from train.loop.progress import ProgressLog
from train.model.encoders import is_baseline, read_baseline
from train.protocol import peers
from train.protocol.metrics import (
    Interval,
    ap_figure,
    auc_figure,
    clusters_of,
    compare_scorers,
    mean_figure,
    recall_figure,
)
from train.protocol.peers import Scorer
from train.protocol.sets import (
    CrisisSet,
    Figures,
    PairSet,
    Scores,
    crisis_figures,
    pair_figures,
    read_crises,
    read_pair_sets,
    threshold_figures,
)
from train.protocol.trust import Trust, TrustReporter, news_words
from train.teacher.minilm import WIDTH, Read, Teacher, with_cache
from train.teacher.store import VectorStore
from train.transformer.mpnet import WIDTH as MPNET_WIDTH
from train.transformer.mpnet import Mpnet

DRAWN_PAIRS = 2**22  # a draw reads all pairs; larger sets get no intervals


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The options of `newsift evaluate`."""

    models: Sequence[str]
    data: Path
    split: Split | None
    peers: bool
    draws: int
    rate: float
    device: str
    mix: float | None
    examples: int = 0
    reader: str = "read"
    trust: bool = True  # whether wrong posts of the first model are explained, which takes time

    @property
    def skims(self) -> bool:
        return self.reader == "skim"


@dataclass(slots=True)
class SetResult:
    """The figures and intervals of every scorer on one set."""

    kind: str  # "pairs", "crisis" or, of all of them, "crises"
    name: str
    size: str
    figures: dict[str, Figures] = field(default_factory=dict)
    intervals: dict[str, dict[str, tuple[Interval, Interval]]] = field(default_factory=dict)
    trust: Trust | None = None  # in the first model


def judge_all(evaluation: Evaluation, log: ProgressLog) -> tuple[list[SetResult], SkippedRows]:
    """Evaluate the models and the installed peers on all sets of the data."""
    skips, split = SkippedRows(), evaluation.split
    sets = read_pair_sets(evaluation.data, split, skips)
    crises = read_crises(evaluation.data, skips)
    crises = [crisis for crisis in crises if split in (None, split_of_event(crisis.name))]
    if not sets and not crises:
        raise InputError(
            f"{evaluation.data}: holds neither pairs/ nor crisis/ of this split (an event needs an "
            f"article, and posts on topic); docs/training.md says how it is laid out; {skips}"
        )
    encoders: dict[str, Encoder] = {}
    scorers: dict[str, Scorer] = {}
    first: peers.JudgedEncoder | None = None
    for name in evaluation.models:
        if is_baseline(Path(name)):
            scorers[name] = peers.baseline(
                read_baseline(Path(name)), evaluation.device, evaluation.mix
            )
        else:
            encoders[name] = encoder.load(name, device=evaluation.device)
            judged = peers.JudgedEncoder(encoders[name], evaluation.skims)
            scorers[name] = judged.scorer(evaluation.mix)
            first = first or judged
    if evaluation.peers:
        scorers |= installed_peers(first, evaluation.data, log)
    reporter = make_reporter(evaluation, encoders, log)
    results = [judge_set(pairs, scorers, reporter, evaluation.draws, log) for pairs in sets]
    events = [
        judge_event(crisis, scorers, encoders, reporter, evaluation, log) for crisis in crises
    ]
    results += events
    if len(events) > 1:
        results.append(mean_of_events(events, evaluation.draws))
    return results, skips


def make_reporter(
    evaluation: Evaluation, encoders: Mapping[str, Encoder], log: ProgressLog
) -> TrustReporter | None:
    """Create the trust report of the first model; thresholds need its own λ and read posts.

    Where wrong posts are asked for and there is no report, the log says why.
    """
    if not evaluation.trust:
        return None
    first = encoders.get(evaluation.models[0])
    if evaluation.skims:
        remedy = "leave --reader skim out"
    elif first is None:
        remedy = "name a model of newsift first"
    elif evaluation.mix not in (None, first.model.mix):
        remedy = "leave --mix out"
    else:
        news = news_words(evaluation.data)
        return TrustReporter(first, evaluation.rate, news, evaluation.examples)
    if evaluation.examples:
        log.line(f"newsift: --wrong: shows no posts; {remedy}")
    return None


def installed_peers(
    judged: peers.JudgedEncoder | None, data: Path, log: ProgressLog
) -> dict[str, Scorer]:
    """Return the scorers to compare with; MiniLM and MPNet only if they are installed.

    Each of these comes alone and, where a model is judged, with that model's words.
    """
    scorers: dict[str, Scorer] = {"BM25": peers.bm25}
    training = training_text(data)
    if training:
        scorers["TF-IDF, idf of the training text"] = peers.tf_idf(training)
    else:
        log.line(f"newsift: no TF-IDF by the training text: {data} holds none")
    try:
        transformers = {
            "MiniLM": (use_bf16(Teacher().texts), VectorStore(cache_root() / "minilm", WIDTH)),
            "MPNet": (Mpnet.open().texts, VectorStore(cache_root() / "mpnet-judged", MPNET_WIDTH)),
        }
    except InputError as error:
        log.line(f"newsift: no MiniLM and MPNet: {error}")
        return scorers
    for name, (texts, store) in transformers.items():
        read = with_cache(texts, store)
        scorers[f"{name}, chunks"] = peers.transformer(read)
        if judged is not None and judged.has_words:
            scorers[f"{name}, chunks + words"] = peers.transformer(read, judged)
    return scorers


def use_bf16(read: Read) -> Read:
    """Wrap a teacher to compute in bf16 where that is faster."""

    def get(texts: Sequence[str]) -> F32:
        with bf16_autocast("cpu"):
            return read(texts)

    return get


def training_text(data: Path) -> list[str]:
    """Read all training posts and articles."""
    texts = read_corpus(data, SkippedRows())
    stories = (*texts.articles, *texts.claims, *texts.pair_stories)
    return [*texts.posts, *texts.pair_posts, *(f"{title} {text}" for title, text in stories)]


def judge_set(
    pairs: PairSet,
    scorers: Mapping[str, Scorer],
    reporter: TrustReporter | None,
    draws: int,
    log: ProgressLog,
) -> SetResult:
    """Evaluate all scorers on one set of pairs."""
    size = f"{len(pairs.posts):,} posts × {len(pairs.stories):,} articles, {len(pairs.own):,} pairs"
    result = SetResult("pairs", pairs.name, size)
    small = len(pairs.posts) * len(pairs.stories) <= DRAWN_PAIRS
    ap_figures = []
    for name, scorer in scorers.items():
        log.progress(f"{pairs.name}: {name}")
        score = scorer(pairs.posts, pairs.stories)
        result.figures[name] = pair_figures(score, pairs)
        if reporter and result.trust is None:
            result.trust = reporter.pairs(score, pairs)
        if draws and small:
            ap_figures.append(ap_figure(score, pairs.label))
        del score  # frees memory for the next scorer's
    if ap_figures:
        log.progress(f"{pairs.name}: {draws} draws")
        stories = clusters_of([story_key(story) for story in pairs.stories])
        intervals = compare_scorers(ap_figures, clusters_of(pairs.posts), stories, draws)
        result.intervals["mAP"] = dict(zip(scorers, intervals, strict=True))
    return result


def judge_event(
    crisis: CrisisSet, scorers: Mapping[str, Scorer], encoders: Mapping[str, Encoder],
    reporter: TrustReporter | None, evaluation: Evaluation, log: ProgressLog,
) -> SetResult:  # fmt: skip
    """Evaluate all scorers on one crisis; automatic thresholds need an encoder with its own λ."""
    size = f"{len(crisis.on):,} posts on topic, {len(crisis.off):,} off, {len(crisis.seeds)} seeds"
    result = SetResult("crisis", crisis.name, f"{size}, {len(crisis.background):,} background")
    scores_of: dict[str, Scores] = {}
    recalls = []
    for name, scorer in scorers.items():
        log.progress(f"{crisis.name}: {name}")
        score = scorer(crisis.posts, crisis.seeds)
        on, background = score[: len(crisis.on)], score[len(crisis.on) + len(crisis.off) :]
        recalls.append(recall_figure(on, background, evaluation.rate))
        scores_of[name] = Scores.of(score, crisis)
        result.figures[name] = crisis_figures(scores_of[name])
        if reporter and result.trust is None:
            result.trust = reporter.event(score, crisis)
        enc = encoders.get(name)
        if enc is not None and evaluation.mix in (None, enc.model.mix):
            seeds, skims = enc.articles(crisis.seeds), evaluation.skims
            thresholds = enc.thresholds(seeds, evaluation.rate, skim=skims)
            result.figures[name] |= threshold_figures(score, thresholds, crisis)
    for figure, side in (("AUC off", "off"), ("AUC background", "background")):
        others: tuple[str, ...] = getattr(crisis, side)
        if evaluation.draws and others:
            aucs = [auc_figure(scores.on, getattr(scores, side)) for scores in scores_of.values()]
            clusters = clusters_of(crisis.on), clusters_of(others)
            intervals = compare_scorers(aucs, *clusters, evaluation.draws)
            result.intervals[figure] = dict(zip(scores_of, intervals, strict=True))
    if evaluation.draws and crisis.background:
        clusters = clusters_of(crisis.on), clusters_of(crisis.background)
        intervals = compare_scorers(recalls, *clusters, evaluation.draws)
        figure = f"recall at {evaluation.rate:g} of the background"
        result.intervals[figure] = dict(zip(scores_of, intervals, strict=True))
    return result


def mean_of_events(events: Sequence[SetResult], draws: int) -> SetResult:
    """Each scorer's mean over crises, with intervals by drawing crises again."""
    result = SetResult("crises", f"mean of {len(events)} crises", "each counts the same")
    first = events[0]
    for name, figures in first.figures.items():
        result.figures[name] = {
            figure: float(np.mean([event.figures[name][figure] for event in events]))
            for figure in figures
            if all(figure in event.figures[name] for event in events)
        }
    one, single = np.arange(len(events)), np.zeros(1, np.int64)
    for figure, intervals in first.intervals.items():
        if all(figure in event.intervals for event in events):
            means = [
                mean_figure([event.intervals[figure][name][0].value for event in events])
                for name in intervals
            ]
            compared = compare_scorers(means, one, single, draws)
            result.intervals[figure] = dict(zip(intervals, compared, strict=True))
    return result
