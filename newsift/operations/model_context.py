"""The workers' model and background in this process: thresholds, and weights of words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError, NewsiftError
from encoder.score.lexical import SLOTS, slot
from encoder.text.clean import POST_CHARS
from newsift.operations.messages import notify
from newsift.operations.seed_drafts import SeedDraft
from newsift.operations.seed_rows import AutoThresholds, SeedRow, resolve_state, rows_of, seed_row
from newsift.statistics.feedback import event_vector, mean_vector
from worker.assembly import build_pipeline, load_encoder
from worker.config import Config
from worker.match.readers import MatchOptions, PostMatcher, PostReader
from worker.posts.compare import parse_parts
from worker.seeds.profile import EventVector, Profile, SeedOrProfile
from worker.seeds.record import Seed
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState, ModelFacts, Resolution, parse_control_state, table_key

MAX_MOVED_WORDS = 10
MAX_HEAVY_WORDS = 60
MAX_TEXT_PARTS = 200  # Each part is as long as a post may be.
MAX_WORD_CHARS = 40
MAX_AUTO_THRESHOLDS = 2_000  # Each costs an embedding.
MAX_PREVIEW_MATCHES = 1_000  # Enough that no match of a post hides another.

WordWeights = list[tuple[str, float]]


def moved_words(
    enc: Encoder, start: EventVector, end: EventVector, texts: Iterable[str]
) -> tuple[WordWeights, WordWeights]:
    """Words whose weights rose and fell most, with the difference."""
    moves = np.zeros(SLOTS)
    moves[end.slots] = end.weights
    moves[start.slots] -= start.weights
    words = _words_by_slot(enc, texts)
    pairs = [
        (word[:MAX_WORD_CHARS], round(float(moves[place]), 4)) for place, word in words.items()
    ]
    pairs.sort(key=lambda pair: (-pair[1], pair[0]))
    rises = [pair for pair in pairs[:MAX_MOVED_WORDS] if pair[1] > 0]
    return rises, [pair for pair in reversed(pairs[-MAX_MOVED_WORDS:]) if pair[1] < 0]


def heaviest_words(enc: Encoder, title: str, text: str) -> WordWeights:
    """Words of an article by falling weight."""
    row = enc.articles([(title, text)]).lexical
    weights = dict(zip(row.slots.tolist(), row.weights.tolist(), strict=True))
    words = _words_by_slot(enc, [title, text])
    pairs = [
        (word[:MAX_WORD_CHARS], round(weights.get(word_slot, 0.0), 4))
        for word_slot, word in words.items()
    ]
    heaviest = sorted((pair for pair in pairs if pair[1]), key=lambda pair: -pair[1])
    return heaviest[:MAX_HEAVY_WORDS]


def _words_by_slot(enc: Encoder, texts: Iterable[str]) -> dict[int, str]:
    """The first word of each slot; of very long texts only the start counts."""
    parts: list[str] = []
    for text in texts:
        if len(parts) >= MAX_TEXT_PARTS:
            break
        parts += [text[start : start + POST_CHARS] for start in range(0, len(text), POST_CHARS)]
    words: dict[int, str] = {}
    for part in parts[:MAX_TEXT_PARTS]:
        for word, weight in enc.tokenize(part):
            if weight:
                words.setdefault(slot(word), word)
    return words


@dataclass(frozen=True, slots=True)
class EventStart:
    """The mean of an event's seeds, and the score that few posts of the background reach with it.

    It is an approximate score where a model has two readers: no post need be read.
    """

    seeds: Embeddings
    vector: EventVector
    threshold: float


class ModelContext:
    """The loaded model, and the seed sets that it makes of control states; thread-safe."""

    def __init__(self, config: Config) -> None:
        matching = replace(config.matching, why=False, max_matches=MAX_PREVIEW_MATCHES)
        self.config = config = replace(config, matching=matching)
        self.enc = load_encoder(config)
        self.pipeline, self._embedder = build_pipeline(self.enc, config)
        self._partial_embedder = self._embedder.for_another_set()  # an embedder caches one set
        self.automatic = self._embedder.automatic
        # Posts to vectors, by the reader whose scores decide.
        self.embed = self.enc.skim if self.automatic.skims_alone else self.enc.posts
        self.reader = PostReader(self.enc, self.enc.threads)
        self.compare = parse_parts(config.posts.compare)
        self.shift = 0.0  # the constant of the last whole set, where a total rate is configured
        self._lock = Lock()

    @property
    def facts(self) -> ModelFacts:
        return self._embedder.facts

    def seed_set(self, state: ControlState) -> SeedSet:
        """The seed set that a worker makes of the state."""
        with self._lock:
            seeds = self._embedder.make(state)
            self.shift = seeds.raised
            return seeds

    def partial_seed_set(self, state: ControlState) -> SeedSet:
        """Leaves alone what `seed_set` caches."""
        with self._lock:
            return self._partial_embedder.make(state, self.shift)

    def calibrate(self, state: ControlState) -> None:
        """With a total rate, thresholds of a part must be those of the whole state."""
        if self.config.matching.total_rate is not None:
            self.seed_set(state)

    def start(self, seeds: Sequence[Seed]) -> EventStart:
        rows = self.enc.articles([(seed.title, seed.text) for seed in seeds])
        vector = event_vector(mean_vector(rows), rows)
        skimmed = self.automatic.calibrating.skim
        rate, row = (
            self.config.matching.automatic_rate,
            vector.as_row(self.enc.mix, self.enc.digest),
        )
        threshold = float(self.enc.thresholds(row, rate, skimmed, skim=True)[0])
        return EventStart(rows, vector, threshold + self.shift)

    def matcher(self, seeds: SeedSet) -> PostMatcher:
        """Compares posts as a worker does; what it reads is kept for the next one."""
        return PostMatcher(self.reader.read, seeds, MatchOptions(self.enc.threads, 1))


def load_context(config: Config) -> ModelContext | None:
    """Returns None and shows a message if there is no usable model."""
    try:
        return ModelContext(config)
    except NewsiftError as error:
        notify(f"thresholds and matches are not shown: {error}")
        return None


def draft_thresholds(context: ModelContext, drafts: Sequence[SeedDraft]) -> AutoThresholds:
    """Raises where the model refuses a draft."""
    state = parse_control_state({draft.key: draft.value for draft in drafts}, context.config.limits)
    thresholds, reasons = thresholds_of(context, state)
    for draft in drafts:
        if draft.id in reasons:
            raise InputError(f"{draft.source}: {reasons[draft.id]}")
    return thresholds


def thresholds_of(
    context: ModelContext, state: ControlState
) -> tuple[AutoThresholds, Mapping[str, str]]:
    """Thresholds by id, and the reasons of seeds that the model refuses."""
    thresholds, reasons = dict[str, float](), dict[str, str]()
    # A profile hides its seeds.
    parts = (replace(state, profiles={}), state) if state.profiles else (state,)
    for part in parts:
        seeds = context.partial_seed_set(part)
        thresholds |= seeds.threshold_of
        reasons |= {seed.id: seed.reason for seed in seeds.refused}
    return thresholds, reasons


def list_seed_rows(state: ControlState, config: Config) -> list[SeedRow]:
    """Rows of seeds with the automatic thresholds that workers use."""
    automatic = _automatic_ids(state, config)
    if has_many := len(automatic) > MAX_AUTO_THRESHOLDS:
        notify(
            f"{len(automatic):,} automatic thresholds are left out; newsift seeds show ID has one"
        )
    needs_model = _has_profile(state, automatic) or (automatic and not has_many)
    context = load_context(config) if needs_model else None
    rows = rows_of(_resolve(state, config, context))
    if context is None or has_many:
        return rows
    context.calibrate(state)
    return _with_thresholds(rows, context, state, automatic)


def full_seed_row(state: ControlState, key: bytes, config: Config) -> SeedRow:
    content = state.content(key)
    automatic = _automatic_ids(state, config)
    needs_model = _has_profile(state, automatic) or (content and content.id in automatic)
    context = load_context(config) if needs_model else None
    row = seed_row(_resolve(state, config, context), state.records[table_key(key)], whole=True)
    if context is None or not isinstance(content, Seed | Profile):
        return row
    context.calibrate(state)
    return _with_thresholds([row], context, state.of_one(content), automatic)[0]


def _automatic_ids(state: ControlState, config: Config) -> set[str]:
    if config.matching.threshold is not None:
        return set()
    contents: list[SeedOrProfile] = [*state.seeds.values(), *state.profiles.values()]
    return {content.id for content in contents if content.threshold is None}


def _has_profile(state: ControlState, automatic: set[str]) -> bool:
    return any(profile.id in automatic for profile in state.profiles.values())


def _resolve(state: ControlState, config: Config, context: ModelContext | None) -> Resolution:
    return resolve_state(state, config) if context is None else state.resolve(context.facts)


def _with_thresholds(
    rows: list[SeedRow], context: ModelContext, state: ControlState, automatic: set[str]
) -> list[SeedRow]:
    """Also marks the rows that the model refuses."""
    thresholds, reasons = thresholds_of(context, state)

    def with_threshold(row: SeedRow) -> SeedRow:
        name = row["id"]
        if name in reasons and name not in thresholds:
            return row | {"state": "refused", "reason": reasons[name]}
        return row | {"auto_threshold": thresholds.get(name)}

    return [with_threshold(row) if row["id"] in automatic else row for row in rows]
