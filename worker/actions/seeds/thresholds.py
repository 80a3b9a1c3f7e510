"""The numbers behind "auto", as the workers find them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from encoder.errors import InputError, NewsiftError
from worker.actions.events.event import Values
from worker.actions.events.teacher import Teacher
from worker.actions.seeds.files import SeedDraft
from worker.actions.seeds.rows import AutoThresholds
from worker.actions.seeds.states import SeedRow
from worker.actions.told import say
from worker.config import Config
from worker.seeds.record import PREFIX

MOST = 2_000  # automatic thresholds that a list tells: each costs an embedding
ALL = 1_000  # matches of a post, so that none hides another


def teacher_of(config: Config) -> Teacher | None:
    """The configured model as workers have it; where there is none that is said, and no matter."""
    try:
        matching = replace(config.matching, why=False, max_matches=ALL)
        return Teacher(replace(config, matching=matching))
    except NewsiftError as error:
        say(f"thresholds and matches are not told: {error}")
        return None


def read_by_model(teacher: Teacher, drafts: Sequence[SeedDraft]) -> AutoThresholds:
    """The automatic thresholds of what is to be published; what the model refuses is refused."""
    cuts, refused = thresholds_of(teacher, {draft.key: draft.value for draft in drafts})
    for draft in drafts:
        if draft.id in refused:
            raise InputError(f"{draft.source}: {refused[draft.id]}")
    return cuts


def thresholds_of(teacher: Teacher, values: Values) -> tuple[AutoThresholds, Mapping[str, str]]:
    """By the ids of seeds and profiles, where they match, and why the model refuses some."""
    profiles = {key for key in values if key and key.startswith(PREFIX.encode())}
    alone = {key: value for key, value in values.items() if key not in profiles}
    cuts, refused = dict[str, float](), dict[str, str]()
    for each in (alone, values) if profiles else (alone,):  # a profile hides the seeds it is of
        made = teacher.set_of_one(each)
        names = (seed.id for seed in made.seeds)
        cuts |= zip(names, made.thresholds.tolist(), strict=True)
        refused |= {seed.id: seed.reason for seed in made.refused}
    return cuts, refused


def with_thresholds(rows: list[SeedRow], values: Values, config: Config) -> list[SeedRow]:
    """The rows with the numbers behind "auto", and what the model refuses as refused."""
    automatic = [row for row in rows if row["state"] != "refused" and row["threshold"] is None]
    if config.matching.threshold is not None or not automatic:
        return rows
    if len(automatic) > MOST:
        say(
            f"{len(automatic):,} automatic thresholds are not told; newsift seeds show ID tells one"
        )
        return rows
    teacher = teacher_of(config)
    if teacher is None:
        return rows
    cuts, refused = thresholds_of(teacher, values)
    names = {row["id"] for row in automatic}
    return [_told(row, cuts, refused) if row["id"] in names else row for row in rows]


def _told(row: SeedRow, cuts: AutoThresholds, refused: Mapping[str, str]) -> SeedRow:
    if row["id"] in refused and row["id"] not in cuts:
        return row | {"state": "refused", "reason": refused[row["id"]]}
    return row | {"auto_threshold": cuts.get(row["id"])}
