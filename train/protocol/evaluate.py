"""The whole protocol: every scorer on every set, with the bootstrap of their differences."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import encoder
from encoder.errors import InputError
from encoder.model.weights import F32
from encoder.support.files import cache_root
from train.data.corpus import read_corpus
from train.data.readers import Passed
from train.data.splits import Split, split_of_event, story_key
from train.model.baseline import is_baseline
from train.protocol.baselines import Compared
from train.protocol.bootstrap import Interval, clusters_of, paired, paired_auc
from train.protocol.judge import (
    Figures,
    Scores,
    crisis_figures,
    judge_threshold,
    pair_figures,
)
from train.protocol.peers import Bm25, MiniLm, Ours, Scorer, TfIdf, counted_idf
from train.protocol.sets import CrisisSet, PairSet, read_crises, read_pair_sets
from train.teacher.chunks import WIDTH
from train.teacher.minilm import Kept, Teacher
from train.teacher.store import VectorStore

Say = Callable[[str], None]
DRAWN_PAIRS = 2**22  # a draw reads all pairs: larger sets are judged without intervals


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for."""

    models: Sequence[str]
    data: Path
    split: Split | None = "test"
    peers: bool = True
    draws: int = 200
    rate: float = 0.001
    device: str = "auto"
    mix: float | None = None


@dataclass(slots=True)
class Judged:
    """The figures of every scorer on one set, and the intervals where they could be drawn."""

    kind: str  # "pairs" or "crisis"
    name: str
    size: str
    figures: dict[str, Figures] = field(default_factory=dict)
    intervals: dict[str, dict[str, tuple[Interval, Interval]]] = field(default_factory=dict)


def judge_all(wanted: Wanted, say: Say) -> tuple[list[Judged], Passed]:
    """Judge the models, and the peers that are installed, on all sets of the data."""
    passed, split = Passed(), wanted.split
    sets = read_pair_sets(wanted.data, split, passed)
    crises = read_crises(wanted.data, passed)
    crises = [one for one in crises if split in (None, split_of_event(one.name))]
    if not sets and not crises:
        raise InputError(f"{wanted.data}: holds neither pairs/ nor crisis/ of this split")
    scorers = [open_model(name, wanted) for name in wanted.models]
    if wanted.peers:
        ours = (scorer for scorer in scorers if isinstance(scorer, Ours))
        scorers += peers(next(ours, None), wanted.data, say)
    judged = [judge_set(one, scorers, wanted.draws, say) for one in sets]
    judged += [judge_event(one, scorers, wanted, say) for one in crises]
    return judged, passed


def open_model(name: str, wanted: Wanted) -> Scorer:
    """A model that can be served, or an encoder that is only compared, by its manifest."""
    if is_baseline(Path(name)):
        return Compared.load(name, wanted.device, wanted.mix)
    return Ours(name, encoder.load(name, device=wanted.device), wanted.mix)


def peers(model: Ours | None, data: Path, say: Say) -> list[Scorer]:
    """What a user would take instead; MiniLM only where it is installed."""
    found: list[Scorer] = [Bm25(), TfIdf("TF-IDF, idf of these texts")]
    training = training_text(data)
    if training:
        found.append(TfIdf("TF-IDF, idf of the training text", counted_idf(training)))
    else:
        say(f"no TF-IDF by the training text: {data} holds none")
    try:
        teacher = Kept(Teacher(), VectorStore(cache_root() / "minilm", WIDTH))
    except InputError as error:
        say(f"no MiniLM: {error}")
        return found
    lead, whole = MiniLm("MiniLM, lead", teacher), MiniLm("MiniLM, chunks", teacher, whole=True)
    found += [lead, whole]
    if model is not None and model.encoder.model.idf is not None:
        found.append(MiniLm("MiniLM, chunks + words", teacher, whole=True, words=model.encoder))
    return found


def training_text(data: Path) -> list[str]:
    """All posts and articles that may train, and none that tunes or judges."""
    texts = read_corpus(data, Passed())
    stories = (*texts.articles, *texts.claims, *texts.pair_stories)
    return [*texts.posts, *texts.pair_posts, *(f"{title} {text}" for title, text in stories)]


def judge_set(pairs: PairSet, scorers: Iterable[Scorer], draws: int, say: Say) -> Judged:
    """All scorers on one set of pairs."""
    size = f"{len(pairs.posts):,} posts × {len(pairs.stories):,} articles, {len(pairs.own):,} pairs"
    judged = Judged("pairs", pairs.name, size)
    held: dict[str, F32] = {}
    for scorer in scorers:
        say(f"{pairs.name}: {scorer.name}")
        ready = scorer.prepare(pairs.posts, pairs.stories)
        judged.figures[scorer.name] = pair_figures(ready, pairs)
        if draws and len(pairs.posts) * len(pairs.stories) <= DRAWN_PAIRS:
            held[scorer.name] = ready.block(slice(None))
    if held:
        say(f"{pairs.name}: {draws} draws")
        label = np.zeros((len(pairs.posts), len(pairs.stories)), np.bool_)
        label[pairs.own[:, 0], pairs.own[:, 1]] = True
        stories = clusters_of([story_key(story) for story in pairs.stories])
        drawn = paired(list(held.values()), label, clusters_of(pairs.posts), stories, draws)
        judged.intervals["mAP"] = dict(zip(held, drawn, strict=True))
    return judged


def judge_event(crisis: CrisisSet, scorers: Sequence[Scorer], wanted: Wanted, say: Say) -> Judged:
    """All scorers on one crisis; the automatic threshold belongs to our models alone."""
    size = f"{len(crisis.on):,} posts on topic, {len(crisis.off):,} off, {len(crisis.seeds)} seeds"
    judged = Judged("crisis", crisis.name, f"{size}, {len(crisis.background):,} background")
    held: dict[str, Scores] = {}
    for scorer in scorers:
        say(f"{crisis.name}: {scorer.name}")
        scores = Scores.of(scorer.prepare(crisis.posts, crisis.seeds), crisis)
        held[scorer.name], judged.figures[scorer.name] = scores, crisis_figures(scores)
        # its thresholds belong to its own λ
        if isinstance(scorer, Ours) and scorer.mix in (None, scorer.encoder.model.mix):
            figures = judge_threshold(scorer.encoder, scorer, crisis, wanted.rate)
            judged.figures[scorer.name] |= figures
    for figure, side in (("AUC off", "off"), ("AUC background", "background")):
        others: tuple[str, ...] = getattr(crisis, side)
        if wanted.draws and others:
            groups = [(scores.on, getattr(scores, side)) for scores in held.values()]
            clusters = clusters_of(crisis.on), clusters_of(others)
            drawn = paired_auc(groups, *clusters, wanted.draws)
            judged.intervals[figure] = dict(zip(held, drawn, strict=True))
    return judged
