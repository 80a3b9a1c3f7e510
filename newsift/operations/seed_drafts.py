"""Seeds before their publication: from files, pages and exports."""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from encoder.errors import InputError
from newsift.files.articles import (
    PAGE_ENDINGS,
    Article,
    WebPage,
    article_from,
    extract_article,
    read_page,
)
from newsift.files.read import DASH, text_in
from newsift.operations.messages import notify
from newsift.operations.seed_topic import SeedTopic, find_key, has_current_seeds
from newsift.web.client import RequestLimits, fetch
from worker.config import Config
from worker.seeds.profile import SeedOrProfile, parse_control_record
from worker.seeds.record import PREFIX_TAKEN, PROFILE_PREFIX, RefusedSeed, Seed, parse_object
from worker.seeds.state import ControlState
from worker.text import shorten

MAX_ID_CHARS = 60
MAX_REPORTED_COPIES = 5
DEFAULT_ID = "article"
WORD = re.compile(r"[^\W_]+")
SEED_KEYS = ("text", "title", "event", "url", "threshold", "expires_at", "paused")
READ_THREADS = os.cpu_count() or 1
EXPORT_KEYS = {"key", "value"}
JSON_SUFFIXES = (".json", ".jsonl")
SUFFIXES = (".txt", ".md", ".markdown", *PAGE_ENDINGS, *JSON_SUFFIXES)


def seed_id(title: str, url: str = "") -> str:
    """Readable: words of the title, else of the address."""
    parts = urlsplit(url)
    words = WORD.findall(title.lower())
    words = words or WORD.findall(f"{parts.hostname or ''} {parts.path}".lower()) or [DEFAULT_ID]
    name = ""
    for word in words:
        if len(name) + len(word) >= MAX_ID_CHARS:
            break
        name += f"-{word}"
    return name.strip("-") or shorten(words[0], MAX_ID_CHARS)


@dataclass(frozen=True, slots=True)
class SeedDraft:
    id: str
    record: dict[str, Any]
    source: str  # for messages
    ignored_keys: tuple[str, ...] = ()  # keys of its source
    doubt: str | None = None  # what its text looks like if it is not an article

    @property
    def article(self) -> Article:
        text = self.record.get("text")
        return Article("", text if isinstance(text, str) else "", doubt=self.doubt)

    @property
    def key(self) -> bytes:
        return self.id.encode("utf-8", "surrogatepass")

    @property
    def value(self) -> bytes:
        """JSON without the keys that are not set."""
        record = {name: value for name, value in self.record.items() if value not in (None, "")}
        try:
            return json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return json.dumps(record).encode()


def require_articles(
    drafts: Iterable[SeedDraft], model: str, remedy: str = ", or give --force"
) -> None:
    """Raises for a draft that looks like no article, is too short, or in another language."""
    for draft in drafts:
        draft.article.require_seed(draft.source, model, remedy)


def set_event(drafts: Iterable[SeedDraft], event: str) -> list[SeedDraft]:
    drafts = list(drafts)
    for draft in drafts:
        if draft.id.startswith(PROFILE_PREFIX):
            raise InputError(
                f"--event: {draft.source} is the profile of an event; leave --event out, or "
                "give the seeds alone"
            )
    return [replace(draft, record=draft.record | {"event": event}) for draft in drafts]


def parse_draft(draft: SeedDraft, key: bytes, config: Config) -> SeedOrProfile:
    """Parses a draft as workers do; raises if they would refuse it."""
    content = parse_control_record(key, draft.value, config.limits)
    if content is None or isinstance(content, RefusedSeed):
        raise InputError(f"{draft.source}: {content.reason if content else 'is empty'}")
    return content


def parse_seed(draft: SeedDraft, config: Config) -> Seed:
    seed = None if draft.id.startswith(PROFILE_PREFIX) else parse_draft(draft, draft.key, config)
    if not isinstance(seed, Seed):
        raise InputError(f"{draft.source}: {PREFIX_TAKEN}")
    return seed


def require_room(state: ControlState, new: Iterable[SeedOrProfile], config: Config) -> None:
    """Raises where workers would refuse these seeds, or others in their place, as too many."""
    seeds = {seed.id: seed for seed in new if isinstance(seed, Seed)}
    before = sum(not seed.paused for seed in state.seeds.values())
    after = sum(not seed.paused for seed in {**state.seeds, **seeds}.values())
    if after > max(before, config.limits.seeds):
        raise InputError(too_many_seeds(config))


def report_copies(state: ControlState, published: Iterable[Seed]) -> None:
    """Reports articles that were published now and stand under other ids too."""
    ids = defaultdict[str, list[str]](list)
    for seed in state.seeds.values():
        ids[seed.content].append(seed.id)
    contents = dict.fromkeys(seed.content for seed in published)
    copies = [sorted(ids[content]) for content in contents if len(ids[content]) > 1]
    for names in copies[:MAX_REPORTED_COPIES]:
        quotes = ", ".join(map(repr, names[:MAX_REPORTED_COPIES]))
        notify(f"one article, {len(names):,} seeds: {quotes}; remove all but one")
    if (more := len(copies) - MAX_REPORTED_COPIES) > 0:
        notify(f"more articles with several seeds: {more:,}")


def too_many_seeds(config: Config) -> str:
    most = config.limits.seeds
    return f"limits.seeds: {most:,} are allowed, and as many are there; remove some"


def read_seed_files(paths: Iterable[Path]) -> list[SeedDraft]:
    """The seeds of files and folders, in order; raises if two have one id.

    A subfolder of a folder is an event: of the seeds in it that name none.
    """
    files = [
        pair
        for path in paths
        for pair in (_seed_files(path, "") if path.is_dir() else [(path, "")])
    ]

    def read(pair: tuple[Path, str]) -> list[SeedDraft]:
        path, event = pair
        return list(read_drafts(read_page(path), path, event))

    with ThreadPoolExecutor(READ_THREADS) as pool:  # each page is parsed in a process of its own
        parts = pool.map(read, files) if len(files) > 1 else map(read, files)
        drafts: dict[str, SeedDraft] = {}
        for draft in chain.from_iterable(parts):
            if other := drafts.get(draft.id):
                raise InputError(
                    f"{draft.source} and {other.source} are both seed {draft.id!r}; "
                    "rename one (`seeds add` takes --id)"
                )
            drafts[draft.id] = draft
    return list(drafts.values())


def _seed_files(folder: Path, event: str) -> Iterator[tuple[Path, str]]:
    """The seed files of a folder and its subfolders, each with its event."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    files = [entry for entry in entries if entry.suffix.lower() in SUFFIXES and not entry.is_dir()]
    folders = [entry for entry in entries if entry.is_dir() and not _holds_page_files(entry)]
    if event and folders:
        raise InputError(f"{folders[0]}: is deeper than the folder of an event; move its files up")
    if not (files or folders):
        raise InputError(f"{folder}: holds no seed ({', '.join(SUFFIXES)})")
    yield from ((file, event) for file in files)
    for entry in folders:
        yield from _seed_files(entry, entry.name)


def _holds_page_files(folder: Path) -> bool:
    """A browser saves a page's pictures in page_files beside page.html."""
    page = folder.name.removesuffix("_files")
    return page != folder.name and any(
        (folder.parent / f"{page}{end}").is_file() for end in PAGE_ENDINGS
    )


def read_drafts(page: WebPage, file: Path, event: str = "") -> Iterator[SeedDraft]:
    """The seeds in the bytes of a file; an id is the record's, else the file's name.

    The file - has no name: the id is made of the title. `event` is the folder's: a part of the
    id, and the event of seeds that name none.
    """
    suffix = file.suffix.lower()
    name = f"{event}/{file.stem}" if event else file.stem
    if suffix in JSON_SUFFIXES:
        text = text_in(page.body, page.url)
        drafts = _drafts_from_json(text, file, name, by_line=suffix == ".jsonl")
    elif file != DASH:
        drafts = iter([_draft_from(article_from(page, suffix in PAGE_ENDINGS), name, str(file))])
    elif page.body.lstrip().startswith(b"{"):
        drafts = _drafts_from_json(
            page.body.decode("utf-8", "replace"), Path(page.url), name, False
        )
    else:
        article = article_from(page)
        drafts = iter(
            [_draft_from(article, seed_id(article.title or article.text[:200]), page.url)]
        )
    for draft in drafts:
        has_event = draft.record.get("event") or draft.id.startswith(PROFILE_PREFIX)
        yield draft if has_event or not event else set_event([draft], event)[0]


def fetch_draft(url: str, limits: RequestLimits) -> SeedDraft:
    page = fetch(url, limits)
    article = extract_article(page)
    return _draft_from(article, seed_id(article.title, page.url), url)


def _draft_from(article: Article, name: str, source: str) -> SeedDraft:
    record = {"text": article.text, "title": article.title, "url": article.url}
    return SeedDraft(name, record, source, doubt=article.doubt)


def _drafts_from_json(text: str, file: Path, name: str, by_line: bool) -> Iterator[SeedDraft]:
    items: list[Any] = []
    for row in [row for row in text.split("\n") if row.strip()] if by_line else [text]:
        try:
            value = json.loads(row)
        except (ValueError, RecursionError):
            raise InputError(f"{file}: is not JSON; fix it") from None
        items += value if isinstance(value, list) else [value]
    if not items:
        raise InputError(f"{file}: holds no seed")
    for number, item in enumerate(items, 1):
        source = f"{file}" if len(items) == 1 else f"{file}, seed {number}"
        if not isinstance(item, dict):
            raise InputError(f'{source}: is not a JSON object; write {{"text": …, "title": …}}')
        if item.keys() >= EXPORT_KEYS and "text" not in item:
            yield _draft_from_export(item, source)
            continue
        draft_id = item.get("id", name if len(items) == 1 else None)
        if not isinstance(draft_id, str):
            raise InputError(f"{source}: has no 'id' that is a string; give it one")
        others = tuple(key for key in item if key not in (*SEED_KEYS, "id"))
        yield SeedDraft(
            draft_id, {key: item[key] for key in SEED_KEYS if key in item}, source, others
        )


def _draft_from_export(item: dict[str, Any], source: str) -> SeedDraft:
    """A seed or profile."""
    key, value = item["key"], item["value"]
    try:
        record = json.loads(value)
    except (ValueError, TypeError, RecursionError):
        record = None
    if not isinstance(key, str) or not isinstance(record, dict):
        raise InputError(f"{source}: is refused by every worker; remove it, or export again")
    return SeedDraft(key, record, source)


def change_seeds(
    topic: SeedTopic, state: ControlState, names: Iterable[str], changes: Mapping[str, Any],
    config: Config,
) -> list[SeedOrProfile]:  # fmt: skip
    """Publish the latest records of seeds or profiles with changes, all of them or none.

    None deletes a key. Of a profile only the threshold changes, which ends its promise.
    """
    values: dict[bytes, bytes | None] = {}
    contents: list[SeedOrProfile] = []
    for name in names:
        key, seed_changes = find_key(state, name), dict(changes)
        if name.startswith(PROFILE_PREFIX):
            if changes.keys() != {"threshold"}:
                raise InputError("of a profile only the threshold can be set")
            seed_changes["promise"] = None
        record = parse_record_object(name, state.value(key)) | seed_changes
        draft = SeedDraft(name, record, f"seed {name!r}")
        contents.append(parse_draft(draft, key, config))
        values[key] = draft.value
    require_room(state, contents, config)
    topic.publish(values, state)
    if "threshold" in changes:
        _report_replaced(contents, state)
    return contents


def _report_replaced(seeds: Iterable[SeedOrProfile], state: ControlState) -> None:
    """Their thresholds count once the profile is stale, or forgotten."""
    for seed in seeds:
        profile = state.profiles.get(seed.event)
        if profile and seed.id in profile.seeds and has_current_seeds(profile, state):
            notify(
                f"seed {seed.id!r}: the profile of its event replaces it, so this threshold has "
                f"no effect now; set that of {profile.id!r}"
            )


def parse_record_object(name: str, value: bytes | None) -> dict[str, Any]:
    """Keeps unknown keys."""
    try:
        return parse_object(value or b"")
    except InputError:
        raise InputError(
            f"seed {name!r}: its record is not a JSON object; add the seed again"
        ) from None
