"""A seed that is there already: its record published again with changes, or deleted."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from encoder.errors import InputError
from worker.actions.seeds.files import SeedDraft, draft_refusal
from worker.actions.seeds.topic import SeedTopic, known
from worker.config import Config
from worker.seeds.profile import Compared, read_record
from worker.seeds.record import RefusedSeed


def changed(topic: SeedTopic, name: str, changes: Mapping[str, Any], config: Config) -> Compared:
    """Publish the latest record of a seed or profile with changes; None takes a key away."""
    latest = topic.latest()
    key = known(latest, name)
    record = _record(name, latest[key].value) | dict(changes)
    draft = SeedDraft(name, record, f"seed {name!r}")
    seed = read_record(key, draft.value, config.limits)
    if seed is None or isinstance(seed, RefusedSeed):
        raise draft_refusal(seed, draft)
    topic.publish({key: draft.value})
    return seed


def removed(topic: SeedTopic, names: Iterable[str]) -> None:
    """Delete seeds; all of them, or none if one is unknown."""
    latest = topic.latest()
    topic.publish(dict.fromkeys([known(latest, name) for name in names]))


def _record(name: str, value: bytes | None) -> dict[str, Any]:
    """The latest record of a seed as it is, unknown keys included."""
    try:
        found = json.loads(value or b"")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"seed {name!r}: its record is no JSON object; add the seed again")
    return found
