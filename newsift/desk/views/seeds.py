"""Seeds: listed, changed, removed and brought back; articles read, tried and published."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from encoder.errors import InputError
from newsift.desk.api import Act, acts, reads
from newsift.desk.seed_editor import Removal, mark_of
from newsift.desk.session import Desk
from newsift.desk.threads import lock_or_busy
from newsift.files.article_checks import looks_foreign, rejection_reason
from newsift.files.articles import WebPage
from newsift.files.read import DASH
from newsift.operations.model_context import draft_thresholds, heaviest_words, thresholds_of
from newsift.operations.seed_drafts import (
    SeedDraft,
    draft_of_url,
    drafts_in,
    parse_seed,
    require_articles,
)
from newsift.operations.seed_publication import (
    AT_TERMINAL,
    draft_status,
    event_seeds,
    preview_row,
    preview_seeds,
)
from newsift.operations.seed_rows import AutoThresholds, SeedRow, content_row
from newsift.operations.seed_topic import key_of, seed_topic
from newsift.operations.times import until
from newsift.web.client import Bounds
from worker.posts.times import rfc3339
from worker.seeds.record import PREFIX, Seed, object_in
from worker.seeds.state import ControlState, control_state, table_key
from worker.text import cut, escaped

DEFAULT_COUNT, MOST = 100, 1_000  # seeds in a list
REFUSED = 50  # of them at the top
EVENTS = 500  # names that are offered
LINE = 200  # characters of a title in a list
LONGEST_URL = 2_048
SEARCHED = ("id", "title", "event", "url")
MOST_DRAFTS = 100  # articles at a time
LONGEST_NAME = 200  # characters of a file's name
PASTED = "the text"
BUSY = "other articles are being tried"
BOUNDS = Bounds()  # the open Internet alone
FORCE = ", or tick “Publish all the same”"
FOREIGN = (
    "does not look English; newsift is made for English, and finds few posts by other articles"
)


class SeedSearch(msgspec.Struct, frozen=True):
    """Which seeds are to be listed: those that hold these words, the first so many."""

    search: str = ""
    most: int = DEFAULT_COUNT


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


@reads("/api/seeds", SeedSearch)
def seed_list(desk: Desk, request: SeedSearch) -> dict[str, Any]:
    """The seeds by event, those that are refused, and what may be offered beside them."""
    rows, control = desk.model.rows(), desk.mirrors.control
    matching = [row for row in rows if _holds(row, request.search.casefold().split())]
    page = matching[: max(0, min(request.most, MOST))]
    refused = [row for row in rows if row["state"] in ("refused", "stale")]
    events = sorted({row["event"] for row in rows if row["state"] != "refused"})
    last = desk.seed_editor.last
    return {
        "rows": [_brief(row, control) for row in page],
        "found": len(matching),
        "total": len(rows),
        "states": Counter(row["state"] for row in rows),
        "refused": [_brief(row, control) for row in refused[:REFUSED]],
        "events": events[:EVENTS],
        "common": desk.config.matching.threshold,
        "one_in": round(1 / desk.config.matching.background_rate),
        "left_out": control.left_out,
        "away": desk.mirrors.of_seeds.away,
        "model": desk.model.away,
        "removed": _removal_row(last) if last else None,
    }


def _holds(row: SeedRow, words: list[str]) -> bool:
    text = " ".join(str(row.get(name) or "") for name in SEARCHED).casefold()
    return all(word in text for word in words)


def _brief(row: SeedRow, control: ControlState) -> SeedRow:
    """A row of the list: what is long is cut, and a mark says which record it is of."""
    brief = {name: value for name, value in row.items() if name != "key"}
    brief["title"] = cut(str(row.get("title") or ""), LINE)
    brief["url"] = str(row.get("url") or "")[:LONGEST_URL]
    return brief | _beside(row, control)


def _beside(row: SeedRow, control: ControlState) -> SeedRow:
    record = control.records.get(row["key"])
    return {
        "is_profile": str(row["id"]).startswith(PREFIX),
        "mark": mark_of(record.value if record else None),
    }


@reads("/api/seed", One)
def one_seed(desk: Desk, request: One) -> SeedRow:
    """One seed whole, with the words that carry it."""
    control = desk.mirrors.control
    key = table_key(key_of(control, request.id))
    content = control.content(control.records[key].key or b"")
    assert content is not None  # of a record that is there
    row = content_row(content, control.records[key], whole=True)
    row |= next((each for each in desk.model.rows() if each["key"] == key), {"key": key})
    teacher = desk.model.now()
    if teacher is not None and "text" in row:
        row["words"] = heaviest_words(teacher.enc, row["title"], row["text"])
    row |= {"common": desk.config.matching.threshold, **_beside(row, control)}
    return {name: value for name, value in row.items() if name != "key"}


@acts("/api/seeds/set", Change, "seeds set")
def change(desk: Desk, request: Change) -> dict[str, Any]:
    """Publish a seed with what is to be otherwise."""
    values = msgspec.structs.asdict(request)
    changes = {
        name: values[name]
        for name in ("event", "title", "threshold", "expires_at", "paused")
        if values[name] is not UNSET
    }
    if changes.get("expires_at"):
        changes["expires_at"] = rfc3339(until(changes["expires_at"], "ends"))
    if "paused" in changes:
        changes["paused"] = changes["paused"] or None
    seed = desk.seed_editor.change(request.id, request.mark, changes)
    return {"id": seed.id, "version": seed.version}


@acts("/api/seeds/remove", Removed, "seeds remove")
def remove(desk: Desk, request: Removed) -> dict[str, Any]:
    """Delete a seed; it can be brought back for as long as the desk is open."""
    return _removal_row(desk.seed_editor.remove(request.id, request.mark, request.by))


@acts("/api/seeds/undo", Undone, "seeds undo")
def undo(desk: Desk, request: Undone) -> dict[str, Any]:
    """Publish the record of a seed that was removed again."""
    return _removal_row(desk.seed_editor.undo(request.number))


def _removal_row(removal: Removal) -> dict[str, Any]:
    return {"number": removal.number, "id": removal.name, "by": removal.by}


class ArticleSource(Act, frozen=True, kw_only=True):
    """Where an article is: pasted, behind an address, or in a file with its name."""

    text: str = ""
    url: str = ""
    name: str = ""
    content: bytes = b""


class Edits(msgspec.Struct, frozen=True):
    """What somebody wants otherwise than it was read, in the order that `seeds add` has."""

    event: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    threshold: float | UnsetType | None = UNSET
    expires_at: str | UnsetType = UNSET  # 7d, or a moment
    text: str | UnsetType = UNSET
    url: str | UnsetType = UNSET


class DraftRequest(msgspec.Struct, frozen=True):
    """An article that was read, and what somebody wants otherwise."""

    id: str
    value: str  # the record as it was read
    source: str
    doubt: str | None = None
    edits: Edits = Edits()
    mark: str = ""  # of the record that it would replace

    def draft(self) -> SeedDraft:
        """The seed that is to be published."""
        record = object_in(self.value.encode("utf-8", "surrogatepass"))
        changes = msgspec.structs.asdict(self.edits)
        changes = {key: value for key, value in changes.items() if value is not UNSET}
        if ends := changes.get("expires_at"):
            changes["expires_at"] = rfc3339(until(ends, "ends"))
        doubt = self.doubt
        if doubt and {"text", "title"} & changes.keys():
            now = record | changes
            doubt = rejection_reason(str(now.get("title") or ""), str(now.get("text") or ""))
        return SeedDraft(self.id.strip(), record | changes, self.source, doubt=doubt)


class Drafts(Act, frozen=True, kw_only=True):
    """Articles that were read."""

    drafts: list[DraftRequest]
    force: bool = False

    def all(self) -> list[SeedDraft]:
        """The seeds that are to be published; two of one id are refused."""
        if not 0 < len(self.drafts) <= MOST_DRAFTS:
            raise InputError(f"drafts: {len(self.drafts)}, give 1 to {MOST_DRAFTS} at a time")
        by_id: dict[str, SeedDraft] = {}
        for draft in (each.draft() for each in self.drafts):
            if other := by_id.get(draft.id):
                clash = f"{draft.source} and {other.source} are both seed {draft.id!r}"
                raise InputError(f"{clash}; give one of them another id")
            by_id[draft.id] = draft
        return list(by_id.values())


@acts("/api/seeds/read", ArticleSource, "seeds read")
def read(desk: Desk, request: ArticleSource) -> list[dict[str, Any]]:
    """What is an article there, not yet published."""
    drafts = _read(request)
    if len(drafts) > MOST_DRAFTS:
        raise InputError(
            f"{drafts[0].source}: {len(drafts)} seeds, {MOST_DRAFTS} are read here at a time; "
            "give fewer"
        )
    for draft in drafts:
        parse_seed(draft, desk.config)
    return [
        {
            "id": draft.id,
            "value": draft.value.decode(),
            "source": draft.source,
            "doubt": draft.doubt,
            "ignored": [escaped(name[:LONGEST_NAME]) for name in draft.ignored[:MOST_DRAFTS]],
        }
        for draft in drafts
    ]


def _read(request: ArticleSource) -> list[SeedDraft]:
    if request.url:
        return [draft_of_url(request.url.strip(), BOUNDS)]
    if request.text:
        return list(drafts_in(WebPage(PASTED, request.text.encode()), DASH))
    name = PurePosixPath(request.name.replace("\\", "/")).name[-LONGEST_NAME:]
    if name in ("", "-", "..") or not request.content:
        raise InputError("give a text, an address, or a file that is not empty")
    return list(drafts_in(WebPage(name, request.content), Path(name)))


@acts("/api/seeds/check", Drafts, "seeds check")
def check(desk: Desk, request: Drafts) -> list[dict[str, Any]]:
    """What each of them would be: refused or not, its threshold, the words that carry it."""
    drafts = request.all()
    control = desk.mirrors.control
    cuts: AutoThresholds = {}
    refused: Mapping[str, str] = {}
    if teacher := desk.model.now():
        cuts, refused = thresholds_of(
            teacher, control_state({d.key: d.value for d in drafts}, desk.config.limits)
        )
    return [_checked(desk, draft, control, refused, cuts) for draft in drafts]


def _checked(
    desk: Desk,
    draft: SeedDraft,
    control: ControlState,
    refused: Mapping[str, str],
    cuts: AutoThresholds,
) -> dict[str, Any]:
    mark = mark_of(control.value(draft.key))
    row = {"id": draft.id, "mark": mark, "published": draft_status(draft, control)}
    try:
        seed = parse_seed(draft, desk.config)
    except InputError as error:
        return row | {"refused": str(error)}
    teacher = desk.model.now()
    words = heaviest_words(teacher.enc, seed.title, seed.text) if teacher else []
    return row | {
        "refused": refused.get(seed.id),
        "version": seed.version,
        "event": seed.event,
        "doubt": draft.objection,
        "notes": _notes(draft, seed),
        "auto_threshold": cuts.get(seed.id),
        "away": desk.model.away,
        "words": words,
    }


def _notes(draft: SeedDraft, seed: Seed) -> list[str]:
    """What is worth a second look, and no reason to refuse."""
    doubt = None if draft.objection else rejection_reason(seed.title, seed.text)
    notes = [f"looks like {doubt}"] if doubt else []
    return [*notes, FOREIGN] if looks_foreign(seed.text) else notes


@acts("/api/seeds/try", Drafts, "seeds try")
def try_out(desk: Desk, request: Drafts) -> dict[str, Any]:
    """What the events of these articles would have matched in the last hours, with them."""
    drafts = request.all()
    seeds = [parse_seed(draft, desk.config) for draft in drafts]
    teacher = desk.model.wait()
    with lock_or_busy(desk.seed_editor.trying, BUSY), seed_topic(desk.config) as topic:
        state = desk.mirrors.control.with_seeds(seeds)
        seed_set = teacher.partial_seed_set(state.of_events({seed.event for seed in seeds}))
        result = preview_seeds(
            topic.cluster, teacher, seed_set, {seed.id for seed in seeds}, AT_TERMINAL
        )
    return {"events": _event_rows(state, seeds), "seen": {
        name: preview_row(result, name) for name in sorted({seed.event for seed in seeds})
    }}  # fmt: skip


@acts("/api/seeds/publish", Drafts, "seeds add")
def publish(desk: Desk, request: Drafts) -> dict[str, Any]:
    """Publish them, read the topic back, and say what there is of their events now."""
    drafts = request.all()
    seeds = [parse_seed(draft, desk.config) for draft in drafts]
    if teacher := desk.model.now():
        draft_thresholds(teacher, drafts)
    if not request.force:
        require_articles(drafts, FORCE)
    marks = {draft.key: each.mark for draft, each in zip(drafts, request.drafts, strict=True)}
    before = desk.seed_editor.publish({draft.key: draft.value for draft in drafts}, marks)
    rows = [
        {"id": seed.id, "version": seed.version, "published": draft_status(draft, before)}
        for draft, seed in zip(drafts, seeds, strict=True)
    ]
    return {"seeds": rows, "events": _event_rows(before.with_seeds(seeds), seeds)}


def _event_rows(state: ControlState, seeds: Sequence[Seed]) -> list[dict[str, Any]]:
    """Of each event how many articles it has, and whether a profile is worth its while."""
    return [
        {
            "event": name, "seeds": counts.seeds, "others": counts.others,
            "few": counts.is_thin, "may_learn": counts.may_learn,
        }
        for name, counts in event_seeds(state, seeds).items()
    ]  # fmt: skip


ENDPOINTS = (seed_list, one_seed, change, remove, undo, read, check, try_out, publish)
