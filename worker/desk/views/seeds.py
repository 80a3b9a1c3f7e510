"""The seeds of the topic: listed, shown whole, changed, removed and brought back."""

from collections import Counter
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from worker.actions.events.words import heaviest_words
from worker.actions.seeds.rows import described
from worker.actions.seeds.states import SeedRow
from worker.actions.seeds.topic import known
from worker.actions.times import until
from worker.desk.desk import Desk
from worker.desk.keeping.changes import Removal, mark_of
from worker.desk.known import Control
from worker.desk.server.api import Act, acts, reads
from worker.posts.times import rfc3339
from worker.seeds.profile import read_record
from worker.seeds.record import PREFIX
from worker.visible import cut

SHOWN, MOST = 100, 1_000  # seeds in a list
REFUSED = 50  # of them at the top
EVENTS = 500  # names that are offered
LINE = 200  # characters of a title in a list
LONGEST_URL = 2_048
SEARCHED = ("id", "title", "event", "url")


class Wanted(msgspec.Struct, frozen=True):
    """Which seeds are to be listed: those that hold these words, the first so many."""

    search: str = ""
    most: int = SHOWN


class One(msgspec.Struct, frozen=True):
    """One seed, by its id as the list has it."""

    id: str


class Change(Act, frozen=True, kw_only=True):
    """What is to be otherwise of a seed that was seen as it is; null takes a key away."""

    id: str
    mark: str
    threshold: float | UnsetType | None = UNSET
    event: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    expires_at: str | UnsetType | None = UNSET  # 7d, or a moment
    paused: bool | UnsetType = UNSET


class Removed(Act, frozen=True, kw_only=True):
    """A seed to remove, as it was seen."""

    id: str
    mark: str


class Undone(Act, frozen=True, kw_only=True):
    """A removal to undo."""

    number: int


@reads("/api/seeds", Wanted)
def listed(desk: Desk, asked: Wanted) -> dict[str, Any]:
    """The seeds by event, those that are refused, and what may be offered beside them."""
    control = desk.known.control
    rows = desk.rows.now(control)
    found = [row for row in rows if _holds(row, asked.search.casefold().split())]
    shown = found[: max(0, min(asked.most, MOST))]
    refused = [row for row in rows if row["state"] in ("refused", "stale")]
    events = sorted({row["event"] for row in rows if row["state"] != "refused"})
    last = desk.keeping.last
    return {
        "rows": [_brief(row, control) for row in shown],
        "found": len(found),
        "total": len(rows),
        "states": Counter(row["state"] for row in rows),
        "refused": [_brief(row, control) for row in refused[:REFUSED]],
        "events": events[:EVENTS],
        "common": desk.config.matching.threshold,
        "one_in": round(1 / desk.config.matching.background_rate),
        "left_out": control.left_out,
        "away": desk.known.of_seeds.away,
        "model": desk.model.away,
        "removed": _told(last) if last else None,
    }


def _holds(row: SeedRow, words: list[str]) -> bool:
    text = " ".join(str(row.get(name) or "") for name in SEARCHED).casefold()
    return all(word in text for word in words)


def _brief(row: SeedRow, control: Control) -> SeedRow:
    """A row of the list: what is long is cut, and a mark says which record it is of."""
    told = {name: value for name, value in row.items() if name != "key"}
    told["title"] = cut(str(row.get("title") or ""), LINE)
    told["url"] = str(row.get("url") or "")[:LONGEST_URL]
    return told | _beside(row, control)


def _beside(row: SeedRow, control: Control) -> SeedRow:
    record = control.latest.get(row["key"])
    return {
        "is_profile": str(row["id"]).startswith(PREFIX),
        "mark": mark_of(record.value if record else None),
    }


@reads("/api/seed", One)
def shown(desk: Desk, asked: One) -> SeedRow:
    """One seed whole, with the words that carry it."""
    control = desk.known.control
    key = known(control.latest, asked.id)
    record = control.latest[key]
    found = read_record(key, record.value, desk.config.limits)
    assert found is not None  # its value deletes nothing
    row = described(found, record, whole=True)
    row |= next(each for each in desk.rows.now(control) if each["key"] == key)
    teacher = desk.model.now()
    if teacher is not None and "text" in row:
        row["words"] = heaviest_words(teacher.enc, row["title"], row["text"])
    row |= {"common": desk.config.matching.threshold, **_beside(row, control)}
    return {name: value for name, value in row.items() if name != "key"}


@acts("/api/seeds/set", Change, "seeds set")
def change(desk: Desk, asked: Change) -> dict[str, Any]:
    """Publish a seed with what is to be otherwise."""
    given = msgspec.structs.asdict(asked)
    changes = {
        name: given[name]
        for name in ("event", "title", "threshold", "expires_at", "paused")
        if given[name] is not UNSET
    }
    if changes.get("expires_at"):
        changes["expires_at"] = rfc3339(until(changes["expires_at"], "ends"))
    if "paused" in changes:
        changes["paused"] = changes["paused"] or None
    seed = desk.keeping.change(asked.id, asked.mark, changes)
    return {"id": seed.id, "version": seed.version}


@acts("/api/seeds/remove", Removed, "seeds remove")
def remove(desk: Desk, asked: Removed) -> dict[str, Any]:
    """Delete a seed; it can be brought back for as long as the desk is open."""
    return _told(desk.keeping.remove(asked.id, asked.mark, asked.by))


@acts("/api/seeds/undo", Undone, "seeds undo")
def undo(desk: Desk, asked: Undone) -> dict[str, Any]:
    """Publish the record of a seed that was removed again."""
    return _told(desk.keeping.undo(asked.number))


def _told(removal: Removal) -> dict[str, Any]:
    return {"number": removal.number, "id": removal.name, "by": removal.by}


ENDPOINTS = (listed, shown, change, remove, undo)
