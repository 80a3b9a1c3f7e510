"""What the records of the control topic come to: which profiles are in force, and what serves."""

import time
from collections.abc import Iterable
from typing import Any

from encoder.errors import ModelError
from encoder.manifest import read_manifest
from encoder.support.named import model_directory
from worker.actions.keyed import Latest
from worker.config import Config
from worker.posts.times import rfc3339
from worker.seeds.in_force import standing, unfit
from worker.seeds.profile import Compared, Profile, read_record
from worker.seeds.record import RefusedSeed, Seed
from worker.seeds.set import too_many

SeedRow = dict[str, Any]


def judged_records(latest: Latest, config: Config) -> dict[bytes | None, Compared | RefusedSeed]:
    """What the records hold, by their keys; what is too much is refused."""
    limits = config.limits
    found = {key: read_record(key, record.value, limits) for key, record in latest.items()}
    over = too_many(found.values(), limits)
    return {
        key: each if isinstance(each, RefusedSeed) else over.get(each.id, each)
        for key, each in found.items() if each is not None
    }  # fmt: skip


def states(found: Iterable[Compared | RefusedSeed], config: Config) -> dict[bytes | None, SeedRow]:
    """By key, the state of every profile for the configured model, and of the seeds it replaces."""
    seeds, profiles = dict[str, Seed](), list[Profile]()
    for each in found:
        if isinstance(each, Seed):
            seeds[each.id] = each
        elif isinstance(each, Profile):
            profiles.append(each)
    if not profiles:
        return {}
    try:
        model = read_manifest(model_directory(config.model.name))
    except ModelError as error:
        unknown = {"state": "unknown", "reason": str(error)}
        return {each.id.encode(): unknown for each in profiles}

    def refusal(profile: Profile) -> str:
        return unfit(profile, model.config.get("dim", 0), model.mix)

    stands = standing(seeds, profiles, model.digest, refusal)
    told: dict[str, SeedRow] = {
        each.id: {"state": state, "reason": each.reason}
        for state, those in (("stale", stands.stale), ("refused", stands.refused))
        for each in those
    }
    for each, end in zip(stands.compared, stands.ends, strict=True):
        if isinstance(each, Profile):
            told[each.id] = end_of(end)
            told |= {name: {"state": "replaced", "by": each.id} for name in each.seeds}
    return {name.encode(): row for name, row in told.items()}


def end_of(expires_at: int | None) -> SeedRow:
    """When something that is not paused ends, and whether it has."""
    over = expires_at is not None and expires_at <= time.time() * 1000
    shown = None if expires_at is None else rfc3339(expires_at)
    return {"state": "expired" if over else "live", "expires_at": shown}
