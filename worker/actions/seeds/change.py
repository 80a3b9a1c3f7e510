"""A seed that is there already: its record published again with changes, or deleted."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from encoder.errors import InputError
from worker.actions.seeds.files import SeedDraft, draft_refusal
from worker.actions.seeds.topic import SeedTopic, known
from worker.config import Config
from worker.seeds.profile import Compared, read_record
from worker.seeds.record import PREFIX, RefusedSeed


def changed(topic: SeedTopic, name: str, changes: Mapping[str, Any], config: Config) -> Compared:
    """Publish the latest record of a seed or profile with changes; None takes a key away."""
    return changed_together(topic, [name], changes, config)[0]


def changed_together(
    topic: SeedTopic, names: Iterable[str], changes: Mapping[str, Any], config: Config
) -> list[Compared]:
    """The same of several; all of them, or none if one is unknown or refused."""
    latest = topic.latest()
    values: dict[bytes, bytes | None] = {}
    made: list[Compared] = []
    for name in names:
        key = known(latest, name)
        record = _record(name, latest[key].value) | _allowed(name, changes)
        draft = SeedDraft(name, record, f"seed {name!r}")
        seed = read_record(key, draft.value, config.limits)
        if seed is None or isinstance(seed, RefusedSeed):
            raise draft_refusal(seed, draft)
        values[key] = draft.value
        made.append(seed)
    topic.publish(values)
    return made


def removed(topic: SeedTopic, names: Iterable[str]) -> None:
    """Delete seeds; all of them, or none if one is unknown."""
    latest = topic.latest()
    topic.publish(dict.fromkeys([known(latest, name) for name in names]))


def _allowed(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What is to change: of a profile the threshold alone, whose promise was of another one."""
    if not name.startswith(PREFIX):
        return dict(changes)
    if changes.keys() != {"threshold"}:
        raise InputError("of a profile only the threshold can be set")
    return {**changes, "promise": None}


def _record(name: str, value: bytes | None) -> dict[str, Any]:
    """The latest record of a seed as it is, unknown keys included."""
    try:
        found = json.loads(value or b"")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"seed {name!r}: its record is no JSON object; add the seed again")
    return found
