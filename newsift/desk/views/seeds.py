"""Seeds: listed, changed, removed and restored; articles read, tried and published."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from encoder.errors import InputError
from newsift.desk.api import Action, get_endpoint, post_endpoint
from newsift.desk.period import FilePeriod
from newsift.desk.seed_editor import Removal, etag_of
from newsift.desk.session import Desk
from newsift.desk.threads import lock_or_busy
from newsift.files.article_checks import rejection_reason
from newsift.files.articles import WebPage
from newsift.files.read import DASH
from newsift.operations.model_context import draft_thresholds, heaviest_words, thresholds_of
from newsift.operations.seed_drafts import (
    SeedDraft,
    fetch_draft,
    parse_seed,
    read_drafts,
    report_copies,
    require_articles,
)
from newsift.operations.seed_preview import (
    TERMINAL_LIMITS,
    count_event_seeds,
    draft_status,
    preview_row,
    preview_seeds,
)
from newsift.operations.seed_rows import AutoThresholds, SeedRow, content_row
from newsift.operations.seed_topic import find_key, seed_topic
from newsift.operations.times import parse_until
from newsift.web.client import RequestLimits
from worker.posts.times import rfc3339
from worker.seeds.record import PROFILE_PREFIX, Seed, parse_object
from worker.seeds.state import ControlState, parse_control_state, table_key
from worker.text import escape_invisible, shorten

DEFAULT_SEEDS, MAX_SEEDS = 100, 1_000
MAX_REFUSED, MAX_EVENTS = 50, 500
MAX_TITLE_CHARS, MAX_URL_CHARS, MAX_NAME_CHARS = 200, 2_048, 200
SEARCH_KEYS = ("id", "title", "event", "url")
MAX_DRAFTS = 100
PASTED_TEXT = "the text"
PUBLIC_LIMITS = RequestLimits()
FORCE_REMEDY = ", or tick “Publish all the same”"


class SeedSearch(msgspec.Struct, frozen=True):
    search: str = ""  # words that a seed has
    most: int = DEFAULT_SEEDS


class SeedRequest(msgspec.Struct, frozen=True):
    id: str


class ChangeAction(Action, frozen=True, kw_only=True):
    """Refused if the record has another etag; null deletes a key."""

    id: str
    etag: str
    event: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    threshold: float | UnsetType | None = UNSET
    expires_at: str | UnsetType | None = UNSET  # 7d, or a moment
    paused: bool | UnsetType = UNSET


class RemoveAction(Action, frozen=True, kw_only=True):
    id: str
    etag: str


class UndoAction(Action, frozen=True, kw_only=True):
    number: int  # of the removal


@get_endpoint("/api/seeds", SeedSearch)
def seed_list(desk: Desk, request: SeedSearch) -> dict[str, Any]:
    rows, control = desk.model.rows(), desk.mirrors.control
    words = request.search.casefold().split()
    matching = [row for row in rows if _has_words(row, words)]
    page = matching[: max(0, min(request.most, MAX_SEEDS))]
    refusals = [row for row in rows if row["state"] in ("refused", "stale")]
    events = sorted({row["event"] for row in rows if row["state"] != "refused"})
    return {
        "rows": [_list_row(row, control) for row in page],
        "matching": len(matching),
        "total": len(rows),
        "states": Counter(row["state"] for row in rows),
        "refused": [_list_row(row, control) for row in refusals[:MAX_REFUSED]],
        "events": events[:MAX_EVENTS],
        "configured": desk.config.matching.threshold,
        "one_in": round(1 / desk.config.matching.automatic_rate),
        "rate_of_all": desk.config.matching.total_rate is not None,
        "left_out": control.left_out,
        "error": desk.mirrors.seeds_follower.error,
        "model": desk.model.error,
        "removed": next(map(_removal_row, reversed(desk.editor.removals)), None),
    }


def _has_words(row: SeedRow, words: list[str]) -> bool:
    text = " ".join(str(row.get(name) or "") for name in SEARCH_KEYS).casefold()
    return all(word in text for word in words)


def _list_row(row: SeedRow, control: ControlState) -> SeedRow:
    title = shorten(str(row.get("title") or ""), MAX_TITLE_CHARS)
    url = str(row.get("url") or "")[:MAX_URL_CHARS]
    return _page_row(row | {"title": title, "url": url}, control)


def _page_row(row: SeedRow, control: ControlState) -> SeedRow:
    """The etag of the record takes the place of its key."""
    fields = row.copy()
    record = control.records.get(fields.pop("key"))
    etag = etag_of(record.value if record else None)
    return fields | {"is_profile": str(row["id"]).startswith(PROFILE_PREFIX), "etag": etag}


@get_endpoint("/api/seed", SeedRequest)
def one_seed(desk: Desk, request: SeedRequest) -> SeedRow:
    control = desk.mirrors.control
    key = table_key(find_key(control, request.id))
    content = control.content(control.records[key].key or b"")
    assert content is not None
    row = content_row(content, control.records[key], whole=True)
    row |= next(
        (seed_row for seed_row in desk.model.rows() if seed_row["key"] == key), {"key": key}
    )
    context = desk.model.context
    if context is not None and "text" in row:
        row["words"] = heaviest_words(context.enc, row["title"], row["text"])
    return _page_row(row | {"configured": desk.config.matching.threshold}, control)


@post_endpoint("/api/seeds/set", ChangeAction, "seeds.set")
def change(desk: Desk, request: ChangeAction) -> dict[str, Any]:
    fields = msgspec.to_builtins(request)  # without those that are not set
    changes = {name: fields[name] for name in fields if name not in ("by", "id", "etag")}
    if changes.get("expires_at"):
        changes["expires_at"] = rfc3339(parse_until(changes["expires_at"], "ends"))
    if "paused" in changes:
        changes["paused"] = changes["paused"] or None
    seed = desk.editor.change(request.id, request.etag, changes)
    return {"id": seed.id, "version": seed.version}


@post_endpoint("/api/seeds/remove", RemoveAction, "seeds.remove")
def remove(desk: Desk, request: RemoveAction) -> dict[str, Any]:
    """Can be undone while the desk is open."""
    return _removal_row(desk.editor.remove(request.id, request.etag, request.by))


@post_endpoint("/api/seeds/undo", UndoAction, "seeds.undo")
def undo(desk: Desk, request: UndoAction) -> dict[str, Any]:
    return _removal_row(desk.editor.undo(request.number))


def _removal_row(removal: Removal) -> dict[str, Any]:
    return {"number": removal.number, "id": removal.name, "by": removal.by}


class ArticleSource(Action, frozen=True, kw_only=True):
    """One of text, address, or file name and content."""

    text: str = ""
    url: str = ""
    name: str = ""
    content: bytes = b""


class Edits(msgspec.Struct, frozen=True):
    """Changes of a seed; keys are in the order that `seeds add` writes."""

    event: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    threshold: float | UnsetType | None = UNSET
    expires_at: str | UnsetType = UNSET  # 7d, or a moment
    text: str | UnsetType = UNSET
    url: str | UnsetType = UNSET


class DraftRequest(msgspec.Struct, frozen=True):
    id: str
    value: str  # the record as it was read
    source: str
    doubt: str | None = None
    edits: Edits = Edits()
    etag: str = ""  # of the record that it would replace

    def draft(self) -> SeedDraft:
        record = parse_object(self.value.encode("utf-8", "surrogatepass"))
        changes = msgspec.to_builtins(self.edits)  # without those that are not set
        if ends := changes.get("expires_at"):
            changes["expires_at"] = rfc3339(parse_until(ends, "ends"))
        doubt = self.doubt
        if doubt and {"text", "title"} & changes.keys():
            result = record | changes
            doubt = rejection_reason(str(result.get("title") or ""), str(result.get("text") or ""))
        return SeedDraft(self.id.strip(), record | changes, self.source, doubt=doubt)


class DraftsAction(Action, frozen=True, kw_only=True):
    drafts: list[DraftRequest]
    force: bool = False

    def all(self) -> list[SeedDraft]:
        """Raises if two drafts have one id."""
        if not 0 < len(self.drafts) <= MAX_DRAFTS:
            raise InputError(f"drafts: {len(self.drafts)}, give 1 to {MAX_DRAFTS} at a time")
        by_id: dict[str, SeedDraft] = {}
        for draft in (request.draft() for request in self.drafts):
            if other := by_id.get(draft.id):
                clash = f"{draft.source} and {other.source} are both seed {draft.id!r}"
                raise InputError(f"{clash}; give one of them another id")
            by_id[draft.id] = draft
        return list(by_id.values())


@post_endpoint("/api/seeds/read", ArticleSource, "seeds.read")
def read(desk: Desk, request: ArticleSource) -> list[dict[str, Any]]:
    """Publishes nothing."""
    drafts = _read_source(request)
    if len(drafts) > MAX_DRAFTS:
        raise InputError(
            f"{drafts[0].source}: {len(drafts)} seeds, {MAX_DRAFTS} are read here at a time; "
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
            "ignored_keys": [
                escape_invisible(name[:MAX_NAME_CHARS]) for name in draft.ignored_keys[:MAX_DRAFTS]
            ],
        }
        for draft in drafts
    ]


def _read_source(request: ArticleSource) -> list[SeedDraft]:
    if request.url:
        return [fetch_draft(request.url.strip(), PUBLIC_LIMITS)]
    if request.text:
        return list(read_drafts(WebPage(PASTED_TEXT, request.text.encode()), DASH))
    name = PurePosixPath(request.name.replace("\\", "/")).name[-MAX_NAME_CHARS:]
    if name in ("", "-", "..") or not request.content:
        raise InputError("give a text, an address, or a file that is not empty")
    return list(read_drafts(WebPage(name, request.content), Path(name)))


@post_endpoint("/api/seeds/check", DraftsAction, "seeds.check")
def check(desk: Desk, request: DraftsAction) -> list[dict[str, Any]]:
    drafts = request.all()
    control = desk.mirrors.control
    thresholds: AutoThresholds = {}
    refusals: Mapping[str, str] = {}
    if context := desk.model.context:
        thresholds, refusals = thresholds_of(
            context, parse_control_state({d.key: d.value for d in drafts}, desk.config.limits)
        )
    return [_check_row(desk, draft, control, refusals, thresholds) for draft in drafts]


def _check_row(
    desk: Desk, draft: SeedDraft, control: ControlState, refusals: Mapping[str, str],
    thresholds: AutoThresholds,
) -> dict[str, Any]:  # fmt: skip
    etag = etag_of(control.value(draft.key))
    row = {"id": draft.id, "etag": etag, "published": draft_status(draft, control)}
    try:
        seed = parse_seed(draft, desk.config)
    except InputError as error:
        return row | {"refused": str(error)}
    context = desk.model.context
    words = heaviest_words(context.enc, seed.title, seed.text) if context else []
    # Doubts that are no reason to refuse.
    objection = draft.article.objection(desk.config.model.name)
    doubt = None if objection else rejection_reason(seed.title, seed.text)
    notes = [f"looks like {doubt}"] if doubt else []
    return row | {
        "refused": refusals.get(seed.id),
        "version": seed.version,
        "event": seed.event,
        "doubt": objection,
        "notes": notes,
        "auto_threshold": thresholds.get(seed.id),
        "error": desk.model.error,
        "loading": desk.model.is_loading,
        "words": words,
    }


@post_endpoint("/api/seeds/try", DraftsAction, "seeds.try")
def try_out(desk: Desk, request: DraftsAction) -> dict[str, Any]:
    """What the events would have matched in the last hours, or of the file."""
    drafts = request.all()
    seeds = [parse_seed(draft, desk.config) for draft in drafts]
    context = desk.model.wait()
    with (
        lock_or_busy(desk.editor.trying, "other articles are being tried"),
        seed_topic(desk.config) as topic,
    ):
        state = desk.mirrors.control.with_contents(seeds)
        context.calibrate(state)
        begin = None
        if isinstance(desk.period, FilePeriod):
            begin = desk.period.begin(topic.cluster, desk.config.topics.posts)
        result = preview_seeds(topic.cluster, context, state, seeds, TERMINAL_LIMITS, begin)
    names = sorted({seed.event for seed in seeds})
    matches = {name: preview_row(result, name) for name in names}
    return {"events": _event_count_rows(state, seeds), "matches": matches}


@post_endpoint("/api/seeds/publish", DraftsAction, "seeds.add")
def publish(desk: Desk, request: DraftsAction) -> dict[str, Any]:
    drafts = request.all()
    seeds = [parse_seed(draft, desk.config) for draft in drafts]
    if context := desk.model.context:
        draft_thresholds(context, drafts)
    if not request.force:
        require_articles(drafts, desk.config.model.name, FORCE_REMEDY)
    etags = {
        draft.key: draft_request.etag
        for draft, draft_request in zip(drafts, request.drafts, strict=True)
    }
    before = desk.editor.publish({draft.key: draft.value for draft in drafts}, etags, seeds)
    after = before.with_contents(seeds)
    report_copies(after, seeds)
    rows = [
        {"id": seed.id, "version": seed.version, "published": draft_status(draft, before)}
        for draft, seed in zip(drafts, seeds, strict=True)
    ]
    return {"seeds": rows, "events": _event_count_rows(after, seeds)}


def _event_count_rows(state: ControlState, seeds: Sequence[Seed]) -> list[dict[str, Any]]:
    return [
        {
            "event": name,
            "seeds": counts.seeds,
            "others": counts.others,
            "few": counts.has_few_seeds,
            "may_learn": counts.may_learn,
        }
        for name, counts in count_event_seeds(state, seeds).items()
    ]
