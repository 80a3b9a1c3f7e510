"""Articles on their way to being seeds: read, shown, tried, and only then published."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from encoder.errors import InputError
from worker.actions.events.event import Values, values_of
from worker.actions.events.words import heaviest_words
from worker.actions.keyed import Latest, value_in
from worker.actions.seeds.fetch import Bounds
from worker.actions.seeds.files import SeedDraft, drafts_in, require_articles, seed_of
from worker.actions.seeds.from_url import draft_of_url
from worker.actions.seeds.known_events import known_events
from worker.actions.seeds.look_back import AT_TERMINAL, as_row, look_back, of_events
from worker.actions.seeds.publication import said_of
from worker.actions.seeds.rows import AutoThresholds
from worker.actions.seeds.thresholds import read_by_model, thresholds_of
from worker.actions.seeds.topic import seed_topic
from worker.actions.times import until
from worker.desk.desk import Desk
from worker.desk.keeping.changes import mark_of
from worker.desk.server.api import Act, acts
from worker.desk.turn import one_at_a_time
from worker.files.articles.doubts import doubt_of
from worker.files.articles.language import looks_foreign
from worker.files.articles.page import Page
from worker.files.read import DASH
from worker.posts.times import rfc3339
from worker.seeds.record import Seed
from worker.seeds.values import object_in
from worker.visible import escaped

MOST = 100  # articles at a time
LONGEST_NAME = 200  # characters of a file's name
PASTED = "the text"
BUSY = "other articles are being tried"
BOUNDS = Bounds()  # the open Internet alone
FORCE = ", or tick “Publish all the same”"
FOREIGN = (
    "does not look English; newsift is made for English, and finds few posts by other articles"
)


class Source(Act, frozen=True, kw_only=True):
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


class Given(msgspec.Struct, frozen=True):
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
            doubt = doubt_of(str(now.get("title") or ""), str(now.get("text") or ""))
        return SeedDraft(self.id.strip(), record | changes, self.source, doubt=doubt)


class Drafts(Act, frozen=True, kw_only=True):
    """Articles that were read."""

    drafts: list[Given]
    force: bool = False

    def all(self) -> list[SeedDraft]:
        """The seeds that are to be published; two of one id are refused."""
        if not 0 < len(self.drafts) <= MOST:
            raise InputError(f"drafts: {len(self.drafts)}, give 1 to {MOST} at a time")
        made: dict[str, SeedDraft] = {}
        for draft in (given.draft() for given in self.drafts):
            if other := made.get(draft.id):
                told = f"{draft.source} and {other.source} are both seed {draft.id!r}"
                raise InputError(f"{told}; give one of them another id")
            made[draft.id] = draft
        return list(made.values())


@acts("/api/seeds/read", Source, "seeds read")
def read(desk: Desk, asked: Source) -> list[dict[str, Any]]:
    """What is an article there, not yet published."""
    drafts = _read(asked)
    if len(drafts) > MOST:
        raise InputError(
            f"{drafts[0].source}: {len(drafts)} seeds, {MOST} are read here at a time; give fewer"
        )
    for draft in drafts:
        seed_of(draft, desk.config)
    return [
        {
            "id": draft.id,
            "value": draft.value.decode(),
            "source": draft.source,
            "doubt": draft.doubt,
            "ignored": [escaped(name[:LONGEST_NAME]) for name in draft.ignored[:MOST]],
        }
        for draft in drafts
    ]


def _read(asked: Source) -> list[SeedDraft]:
    if asked.url:
        return [draft_of_url(asked.url.strip(), BOUNDS)]
    if asked.text:
        return list(drafts_in(Page(PASTED, asked.text.encode()), DASH))
    name = PurePosixPath(asked.name.replace("\\", "/")).name[-LONGEST_NAME:]
    if name in ("", "-", "..") or not asked.content:
        raise InputError("give a text, an address, or a file that is not empty")
    return list(drafts_in(Page(name, asked.content), Path(name)))


@acts("/api/seeds/check", Drafts, "seeds check")
def check(desk: Desk, asked: Drafts) -> list[dict[str, Any]]:
    """What each of them would be: refused or not, its threshold, the words that carry it."""
    drafts = asked.all()
    latest = desk.known.control.latest
    cuts: AutoThresholds = {}
    refused: Mapping[str, str] = {}
    if teacher := desk.model.now():
        cuts, refused = thresholds_of(teacher, {draft.key: draft.value for draft in drafts})
    return [_checked(desk, draft, latest, refused, cuts) for draft in drafts]


def _checked(
    desk: Desk, draft: SeedDraft, latest: Latest, refused: Mapping[str, str], cuts: AutoThresholds
) -> dict[str, Any]:
    mark = mark_of(value_in(latest, draft.key))
    row = {"id": draft.id, "mark": mark, "published": said_of(draft, latest)}
    try:
        seed = seed_of(draft, desk.config)
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
    doubt = None if draft.objection else doubt_of(seed.title, seed.text)
    told = [f"looks like {doubt}"] if doubt else []
    return [*told, FOREIGN] if looks_foreign(seed.text) else told


@acts("/api/seeds/try", Drafts, "seeds try")
def try_out(desk: Desk, asked: Drafts) -> dict[str, Any]:
    """What the events of these articles would have matched in the last hours, with them."""
    drafts = asked.all()
    seeds = [seed_of(draft, desk.config) for draft in drafts]
    teacher = desk.model.wait()
    with one_at_a_time(desk.keeping.trying, BUSY), seed_topic(desk.config) as topic:
        values = _with(desk.known.control.values, drafts)
        made = teacher.set_of_one(of_events(values, {seed.event for seed in seeds}, desk.config))
        seen = look_back(topic.cluster, teacher, made, {seed.id for seed in seeds}, AT_TERMINAL)
    return {"events": _told(desk, values, seeds), "seen": {
        name: as_row(seen, name) for name in sorted({seed.event for seed in seeds})
    }}  # fmt: skip


@acts("/api/seeds/publish", Drafts, "seeds add")
def publish(desk: Desk, asked: Drafts) -> dict[str, Any]:
    """Publish them, read the topic back, and say what there is of their events now."""
    drafts = asked.all()
    seeds = [seed_of(draft, desk.config) for draft in drafts]
    if teacher := desk.model.now():
        read_by_model(teacher, drafts)
    if not asked.force:
        require_articles(drafts, FORCE)
    marks = {draft.key: given.mark for draft, given in zip(drafts, asked.drafts, strict=True)}
    before = desk.keeping.publish({draft.key: draft.value for draft in drafts}, marks)
    rows = [
        {"id": seed.id, "version": seed.version, "published": said_of(draft, before)}
        for draft, seed in zip(drafts, seeds, strict=True)
    ]
    return {"seeds": rows, "events": _told(desk, _with(values_of(before), drafts), seeds)}


def _with(values: Values, drafts: Sequence[SeedDraft]) -> Values:
    return dict(values) | {draft.key: draft.value for draft in drafts}


def _told(desk: Desk, values: Values, seeds: Sequence[Seed]) -> list[dict[str, Any]]:
    """Of each event how many articles it has, and whether a profile is worth its while."""
    return [
        {
            "event": name, "seeds": known.seeds, "others": known.others,
            "few": known.is_thin, "may_learn": known.may_learn,
        }
        for name, known in known_events(values, desk.config, seeds).items()
    ]  # fmt: skip


ENDPOINTS = (read, check, try_out, publish)
