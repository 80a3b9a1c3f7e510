"""Seeds and profiles as rows of JSON, and as lines of text."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from encoder.errors import ModelError
from encoder.model_directory import read_manifest
from encoder.support.named import model_directory
from newsift.operations.times import now_ms
from worker.config import Config
from worker.posts.times import rfc3339
from worker.seeds.profile import Profile, SeedOrProfile
from worker.seeds.record import RefusedSeed, Seed
from worker.seeds.state import (
    ControlRecord,
    ControlState,
    ModelFacts,
    Resolution,
    Status,
    seed_status,
)
from worker.text import one_line

AutoThresholds = Mapping[str, float]  # by the ids of seeds and profiles
SeedRow = dict[str, Any]


def resolve_state(state: ControlState, config: Config) -> Resolution:
    """Resolves without loading the model.

    So a profile whose background is too small for the rate is not refused here.
    """
    if not state.profiles:
        return state.resolve(None)
    try:
        model = read_manifest(model_directory(config.model.name))
    except ModelError as error:
        return state.resolve(None, str(error))
    return state.resolve(ModelFacts(model.digest, model.config.get("dim", 0), model.mix))


def rows_of(resolution: Resolution) -> list[SeedRow]:
    """Rows by id, refused seeds included."""
    rows = [seed_row(resolution, record) for record in resolution.state.records.values()]
    return sorted(rows, key=lambda row: str(row["id"]))


def seed_row(resolution: Resolution, record: ControlRecord, whole: bool = False) -> SeedRow:
    content = resolution.state.content(record.key or b"")
    assert content is not None  # of a record that is there
    row = content_row(content, record, whole)
    if isinstance(content, RefusedSeed):
        return row
    status = resolution.status(content.id, now_ms())
    if status.reason:
        return row | {"state": status.state, "reason": status.reason}
    if status.replaced_by:
        return row | {"state": status.state, "replaced_by": status.replaced_by}
    return row | {"state": status.state, "expires_at": _end_text(status)}


def _end_text(status: Status) -> str | None:
    return None if status.ends_at is None else rfc3339(status.ends_at)


def content_row(
    content: SeedOrProfile | RefusedSeed, record: ControlRecord, whole: bool = False
) -> SeedRow:
    """A row without the status that profiles decide; `whole` adds texts and provenance."""
    time = {"published_at": rfc3339(max(record.timestamp, 0))}
    if isinstance(content, RefusedSeed):
        text = {"value": record.value.decode("utf-8", "backslashreplace")} if whole else {}
        refusal = {"id": content.id, "state": "refused", "reason": content.reason}
        return refusal | time | text
    row = seed_fields(content) | time
    if isinstance(content, Profile):
        details = {"model": content.model, "promise": content.promise, "made": content.made}
        return row | {"seeds": sorted(content.seeds)} | (details if whole else {})
    return row | {"text": content.text} if whole else row | {"characters": len(content.text)}


def seed_fields(seed: SeedOrProfile) -> SeedRow:
    status = seed_status(seed, now_ms()) if isinstance(seed, Seed) else Status("live")
    return {
        "id": seed.id,
        "state": status.state,
        "event": seed.event,
        "seed_version": seed.version,
        "threshold": seed.threshold,
        "expires_at": _end_text(status),
        "title": seed.title,
        "url": seed.url,
    }


def threshold_text(own: float | None, default: float | None, automatic: float | None = None) -> str:
    """`default` is the threshold of the configuration, for seeds that have none."""
    if own is not None:
        return f"{own:g}"
    if default is not None:
        return f"{default:g} (matching.threshold)"
    return "auto" if automatic is None else f"auto {automatic:.4f}"


def publication_text(
    seed: SeedOrProfile, status: str, config: Config, auto: AutoThresholds = MappingProxyType({})
) -> str:
    """The line that says what was published."""
    threshold = f"threshold {threshold_text(seed.threshold, config.matching.threshold)}"
    if config.matching.threshold is None and seed.threshold is None:
        one_in = round(1 / config.matching.automatic_rate)
        background = config.matching.background
        posts = f"posts of {background.name}" if background else "everyday posts"
        number = f" {auto[seed.id]:.4f}" if seed.id in auto else ""
        reach = "reaches it" if config.matching.total_rate is None else "matches any seed"
        threshold = f"automatic threshold{number} (1 in {one_in:,} {posts} {reach})"
    return f"{one_line(seed.id)}  {seed.version}  {status}, {threshold}"
