"""The model with its background, as the workers have it: thresholds, and the words of a vector."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

import encoder
from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError, NewsiftError
from encoder.score.lexical import SLOTS, slot
from encoder.text.clean import POST_CHARS
from newsift.operations.messages import notify
from newsift.operations.seed_drafts import SeedDraft
from newsift.operations.seed_rows import AutoThresholds, SeedRow, resolve_state, rows_of, seed_row
from newsift.statistics.feedback import (
    mean,
    profile_threshold,
    vector_of,
)
from worker.assembly import assembled
from worker.config import Config
from worker.seeds.profile import Compared, EventVector, Profile
from worker.seeds.record import Seed
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState, ModelFacts, Resolution, control_state, table_key

MOST_WORDS = 10
HEAVIEST = 60  # words of an article that are told
MOST_PARTS = 200  # of texts, each as long as a post may be
MOST_CHARS = 40  # of a word

WordWeights = list[tuple[str, float]]


def moved_words(
    enc: Encoder, start: EventVector, end: EventVector, texts: Iterable[str]
) -> tuple[WordWeights, WordWeights]:
    """The words of the texts whose weights rose and fell most, each with the difference."""
    moves = weights_of(end) - weights_of(start)  # [slots]
    named = slots_of(enc, texts)
    moved = [(word[:MOST_CHARS], round(float(moves[place]), 4)) for place, word in named.items()]
    moved.sort(key=lambda pair: (-pair[1], pair[0]))
    gained = [pair for pair in moved[:MOST_WORDS] if pair[1] > 0]
    return gained, [pair for pair in reversed(moved[-MOST_WORDS:]) if pair[1] < 0]


def heaviest_words(enc: Encoder, title: str, text: str) -> WordWeights:
    """The words that weigh most in an article, each with its weight there, the heaviest first."""
    row = enc.articles([(title, text)]).lexical
    weights = dict(zip(row.slots.tolist(), row.weights.tolist(), strict=True))
    named = slots_of(enc, [title, text])
    weighted = [(word[:MOST_CHARS], round(weights.get(at, 0.0), 4)) for at, word in named.items()]
    return sorted((pair for pair in weighted if pair[1]), key=lambda pair: -pair[1])[:HEAVIEST]


def slots_of(enc: Encoder, texts: Iterable[str]) -> dict[int, str]:
    """The first word of the texts that falls into each slot."""
    words: dict[int, str] = {}
    for part in _parts(texts):
        for word, weight in enc.tokenize(part):
            if weight:
                words.setdefault(slot(word), word)
    return words


def weights_of(vector: EventVector) -> NDArray[np.float64]:
    """The weight of every slot: [slots]."""
    weights = np.zeros(SLOTS)
    weights[vector.slots] = vector.weights
    return weights


def _parts(texts: Iterable[str]) -> list[str]:
    """The texts in parts that are read as posts are; of very many the first."""
    parts: list[str] = []
    for text in texts:
        if len(parts) >= MOST_PARTS:
            break
        parts += [text[at : at + POST_CHARS] for at in range(0, len(text), POST_CHARS)]
    return parts[:MOST_PARTS]


@dataclass(frozen=True, slots=True)
class EventStart:
    """Where an event starts from: its seeds' vectors, their mean, and where the mean matches."""

    seeds: Embeddings
    vector: EventVector
    threshold: float


class ModelContext:
    """A model with its background, as the workers have it; from several threads."""

    def __init__(self, config: Config) -> None:
        model = config.model
        self.config = config
        self.enc = encoder.load(model.name, device=model.device, threads=model.threads)
        self.pipeline, self._embedder = assembled(self.enc, config)
        self._partial_embedder = assembled(self.enc, config)[1]  # lest either forget what it knows
        self.background = self._embedder.background
        self.no_seeds = SeedSet.empty(self.enc)
        self._lock = Lock()  # what makes sets of seeds keeps what it knows of them

    @property
    def facts(self) -> ModelFacts:
        """What decides which profiles are in force, by the rule of the workers."""
        return self._embedder.facts

    def seed_set(self, state: ControlState) -> SeedSet:
        """What a worker compares posts with whose control topic is in this state."""
        with self._lock:
            return self._embedder.make(state)

    def partial_seed_set(self, state: ControlState) -> SeedSet:
        """The same for a few events."""
        with self._lock:
            return self._partial_embedder.make(state)

    def start(self, seeds: Sequence[Seed]) -> EventStart:
        """Where these seeds start from."""
        rows = self.enc.articles([(seed.title, seed.text) for seed in seeds])
        vector = vector_of(mean(rows), rows)
        rate = self.config.matching.background_rate
        return EventStart(rows, vector, profile_threshold(vector, self.background, rate))


MAX_AUTO_THRESHOLDS = 2_000  # automatic thresholds that a list tells: each costs an embedding
MAX_MATCHES = 1_000  # matches of a post, so that none hides another


def load_context(config: Config) -> ModelContext | None:
    """The configured model as workers have it; where there is none that is said, and no matter."""
    try:
        matching = replace(config.matching, why=False, max_matches=MAX_MATCHES)
        return ModelContext(replace(config, matching=matching))
    except NewsiftError as error:
        notify(f"thresholds and matches are not told: {error}")
        return None


def draft_thresholds(context: ModelContext, drafts: Sequence[SeedDraft]) -> AutoThresholds:
    """The automatic thresholds of what is to be published; what the model refuses is refused."""
    state = control_state({draft.key: draft.value for draft in drafts}, context.config.limits)
    cuts, refused = thresholds_of(context, state)
    for draft in drafts:
        if draft.id in refused:
            raise InputError(f"{draft.source}: {refused[draft.id]}")
    return cuts


def thresholds_of(
    context: ModelContext, state: ControlState
) -> tuple[AutoThresholds, Mapping[str, str]]:
    """By the ids of seeds and profiles, where they match, and why some are refused."""
    alone = replace(state, profiles={}) if state.profiles else state
    cuts, refused = dict[str, float](), dict[str, str]()
    for each in (alone, state) if state.profiles else (state,):  # a profile hides its seeds
        made = context.partial_seed_set(each)
        names = (seed.id for seed in made.seeds)
        cuts |= zip(names, made.thresholds.tolist(), strict=True)
        refused |= {seed.id: seed.reason for seed in made.refused}
    return cuts, refused


def list_seed_rows(state: ControlState, config: Config) -> list[SeedRow]:
    """All seeds and profiles as the workers have them, with the numbers behind "auto"."""
    automatic = _automatic(state, config)
    if len(automatic) > MAX_AUTO_THRESHOLDS:
        notify(
            f"{len(automatic):,} automatic thresholds are not told; newsift seeds show ID tells one"
        )
    has_profile = any(profile.id in automatic for profile in state.profiles.values())
    few = 0 < len(automatic) <= MAX_AUTO_THRESHOLDS
    context = load_context(config) if has_profile or few else None
    rows = rows_of(_resolution(state, config, context))
    if context is None or len(automatic) > MAX_AUTO_THRESHOLDS:
        return rows
    return _with_thresholds(rows, context, state, automatic)


def full_seed_row(state: ControlState, key: bytes, config: Config) -> SeedRow:
    """All about the seed or profile of this key."""
    content = state.content(key)
    automatic = _automatic(state, config)
    has_profile = any(profile.id in automatic for profile in state.profiles.values())
    context = load_context(config) if has_profile or (content and content.id in automatic) else None
    resolution = _resolution(state, config, context)
    row = seed_row(resolution, state.records[table_key(key)], whole=True)
    if context is None or not isinstance(content, Seed | Profile):
        return row
    return _with_thresholds([row], context, state.of_one(content), automatic)[0]


def _automatic(state: ControlState, config: Config) -> set[str]:
    """The ids of the seeds and profiles whose thresholds are automatic."""
    if config.matching.threshold is not None:
        return set()
    contents: list[Compared] = [*state.seeds.values(), *state.profiles.values()]
    return {each.id for each in contents if each.threshold is None}


def _resolution(state: ControlState, config: Config, context: ModelContext | None) -> Resolution:
    return resolve_state(state, config) if context is None else state.resolve(context.facts)


def _with_thresholds(
    rows: list[SeedRow], context: ModelContext, state: ControlState, automatic: set[str]
) -> list[SeedRow]:
    """The rows with their thresholds, and what the model refuses as refused."""
    cuts, refused = thresholds_of(context, state)
    return [
        _row_with_threshold(row, cuts, refused) if row["id"] in automatic else row for row in rows
    ]


def _row_with_threshold(row: SeedRow, cuts: AutoThresholds, refused: Mapping[str, str]) -> SeedRow:
    if row["id"] in refused and row["id"] not in cuts:
        return row | {"state": "refused", "reason": refused[row["id"]]}
    return row | {"auto_threshold": cuts.get(row["id"])}
