"""Seeds that are not published yet: from files, pages and exports."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from encoder.errors import InputError
from newsift.files.article_checks import too_few_words
from newsift.files.articles import PAGES, Article, WebPage, article_of, article_on, saved_page
from newsift.files.read import DASH, text_in
from newsift.operations.seed_topic import SeedTopic, key_of
from newsift.web.fetch import Bounds, fetch
from worker.config import Config
from worker.seeds.profile import Compared
from worker.seeds.record import PREFIX, TAKEN, RefusedSeed, Seed, object_in
from worker.seeds.state import ControlState, control_state
from worker.text import cut

LONGEST = 60  # characters
NAMELESS = "article"
WORD = re.compile(r"[^\W_]+")


def seed_id(title: str, url: str = "") -> str:
    """An id that people can read: out of the title, else out of the address."""
    parts = urlsplit(url)
    words = WORD.findall(title.lower())
    words = words or WORD.findall(f"{parts.hostname or ''} {parts.path}".lower()) or [NAMELESS]
    made = ""
    for word in words:
        if len(made) + len(word) >= LONGEST:
            break
        made += f"-{word}"
    return made.strip("-") or cut(words[0], LONGEST)


KEYS = ("text", "title", "event", "url", "threshold", "expires_at", "paused")
AT_ONCE = os.cpu_count() or 1
EXPORTED = {"key", "value"}
JSON = (".json", ".jsonl")
SUFFIXES = (".txt", ".md", ".markdown", *PAGES, *JSON)


@dataclass(frozen=True, slots=True)
class SeedDraft:
    """A seed that is not published yet: its id, its record, and where it comes from."""

    id: str
    record: dict[str, Any]
    source: str
    ignored: tuple[str, ...] = ()
    doubt: str | None = None  # what its text looks like if it is no article

    @property
    def objection(self) -> str | None:
        """Why this may be no article: what its page looks like, or how few words it has."""
        text = self.record.get("text")
        has_text = isinstance(text, str) and bool(text.strip())
        return self.doubt or (too_few_words(str(text)) if has_text else None)

    @property
    def key(self) -> bytes:
        """The key of the record."""
        return self.id.encode("utf-8", "surrogatepass")

    @property
    def value(self) -> bytes:
        """The record as JSON, without the keys that are not set."""
        record = {name: value for name, value in self.record.items() if value not in (None, "")}
        try:
            return json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return json.dumps(record).encode()


@dataclass(frozen=True, slots=True)
class SeedFile:
    """A file of seeds, and the event that its folder names, if any."""

    path: Path
    event: str = ""


def read_seed_files(paths: Iterable[Path]) -> list[SeedDraft]:
    """The seeds of these files, and of the folders' files, in order; two of one id are refused.

    A folder's subfolder is an event: its name is the event of the seeds in it that name none.
    """
    drafts: dict[str, SeedDraft] = {}
    for draft in _all_read(list(_files(paths))):
        if other := drafts.get(draft.id):
            raise InputError(
                f"{draft.source} and {other.source} are both seed {draft.id!r}; "
                "rename one, or add it with --id"
            )
        drafts[draft.id] = draft
    return list(drafts.values())


def _all_read(files: Sequence[SeedFile]) -> Iterator[SeedDraft]:
    """The seeds of these files in their order; each page is taken apart in a process of its own."""
    if len(files) == 1:
        yield from _read(files[0])
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for drafts in pool.map(lambda file: list(_read(file)), files):
            yield from drafts


def require_articles(drafts: Iterable[SeedDraft], remedy: str = ", or give --force") -> None:
    """Refuse what was taken from a page and looks like no article, and what has too few words."""
    for draft in drafts:
        if draft.objection:
            text = str(draft.record["text"])
            Article("", text, doubt=draft.doubt).require_seed(draft.source, remedy)


def with_event(drafts: Iterable[SeedDraft], event: str) -> list[SeedDraft]:
    """The seeds as one event, whatever their records and folders say."""
    drafts = list(drafts)
    for draft in drafts:
        if draft.id.startswith(PREFIX):
            raise InputError(
                f"--event: {draft.source} is the profile of an event; leave --event out, or "
                "give the seeds alone"
            )
    return [replace(draft, record=draft.record | {"event": event}) for draft in drafts]


def draft_of(article: Article, name: str, source: str) -> SeedDraft:
    """The seed that an article makes."""
    record = {"text": article.text, "title": article.title, "url": article.url}
    return SeedDraft(name, record, source, doubt=article.doubt)


def parse_draft(draft: SeedDraft, key: bytes, config: Config) -> Compared:
    """The seed or profile as every worker will read it; refused here rather than there."""
    content = control_state({key: draft.value}, config.limits).content(key)
    if content is None or isinstance(content, RefusedSeed):
        raise InputError(f"{draft.source}: {content.reason if content else 'is empty'}")
    return content


def parse_seed(draft: SeedDraft, config: Config) -> Seed:
    """The same of what has to be a seed."""
    seed = None if draft.id.startswith(PREFIX) else parse_draft(draft, draft.key, config)
    if not isinstance(seed, Seed):
        raise InputError(f"{draft.source}: {TAKEN}")
    return seed


def _files(paths: Iterable[Path]) -> Iterator[SeedFile]:
    for path in paths:
        if path.is_dir():
            yield from _files_of(path, "")
        else:
            yield SeedFile(path)


def _files_of(folder: Path, event: str) -> Iterator[SeedFile]:
    """The files of a folder, and of its subfolders where it is not itself the folder of an event"""
    inside = sorted(each for each in folder.iterdir() if not each.name.startswith("."))
    files = [SeedFile(file, event) for file in inside if file.suffix.lower() in SUFFIXES]
    files = [each for each in files if not each.path.is_dir()]
    folders = [each for each in inside if each.is_dir() and not _is_of_page(each)]
    if event and folders:
        raise InputError(f"{folders[0]}: is deeper than the folder of an event; move its files up")
    if not (files or folders):
        raise InputError(f"{folder}: holds no seed ({', '.join(SUFFIXES)})")
    yield from files
    for each in folders:
        yield from _files_of(each, each.name)


def _is_of_page(folder: Path) -> bool:
    """Whether a browser saved a page's pictures here: page_files beside page.html."""
    page = folder.name.removesuffix("_files")
    return page != folder.name and any((folder.parent / f"{page}{end}").is_file() for end in PAGES)


def _read(file: SeedFile) -> Iterator[SeedDraft]:
    return drafts_in(saved_page(file.path), file.path, file.event)


def drafts_in(page: WebPage, file: Path, event: str = "") -> Iterator[SeedDraft]:
    """The seeds in the bytes of a file; a seed's id is its `id`, else the name without its ending.

    Of a file without a name, which is -, it is made of the title. `event` is the folder's: it
    stands before the name, and is the event of what names none.
    """
    suffix = file.suffix.lower()
    name = f"{event}/{file.stem}" if event else file.stem
    if suffix in JSON:
        text = text_in(page.body, page.url)
        drafts = _from_text(text, file, name, by_line=suffix == ".jsonl")
    elif file != DASH:
        drafts = iter([draft_of(article_on(page, suffix in PAGES), name, str(file))])
    elif page.body.lstrip().startswith(b"{"):
        drafts = _from_text(page.body.decode("utf-8", "replace"), Path(page.url), name, False)
    else:
        drafts = iter([_unnamed(article_on(page), page)])
    for draft in drafts:
        has_event = draft.record.get("event") or draft.id.startswith(PREFIX)
        yield draft if has_event or not event else with_event([draft], event)[0]


def _unnamed(article: Article, page: WebPage) -> SeedDraft:
    """A seed whose id is made of its title, or of its first words."""
    return draft_of(article, seed_id(article.title or article.text[:200], ""), page.url)


def _from_text(text: str, file: Path, name: str, by_line: bool) -> Iterator[SeedDraft]:
    rows = [row for row in text.split("\n") if row.strip()] if by_line else [text]
    items = [item for row in rows for item in _items(row, file)]
    if not items:
        raise InputError(f"{file}: holds no seed")
    for number, item in enumerate(items, 1):
        source = f"{file}" if len(items) == 1 else f"{file}, seed {number}"
        if not isinstance(item, dict):
            raise InputError(f'{source}: is no JSON object; write {{"text": …, "title": …}}')
        yield _from_json(item, name if len(items) == 1 else None, source)


def _items(text: str, file: Path) -> list[Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{file}: is no JSON; mend it") from None
    return parsed if isinstance(parsed, list) else [parsed]


def _from_json(item: dict[str, Any], name: str | None, source: str) -> SeedDraft:
    if item.keys() >= EXPORTED and "text" not in item:
        return _from_export(item, source)
    given = item.get("id", name)
    if not isinstance(given, str):
        raise InputError(f"{source}: has no 'id' that is a string; give it one")
    ignored = tuple(key for key in item if key not in (*KEYS, "id"))
    return SeedDraft(given, {key: item[key] for key in KEYS if key in item}, source, ignored)


def _from_export(item: dict[str, Any], source: str) -> SeedDraft:
    """A record of the control topic, seed or profile, as `newsift seeds export` writes it."""
    key, value = item["key"], item["value"]
    try:
        record = json.loads(value)
    except (ValueError, TypeError, RecursionError):
        record = None
    if not isinstance(key, str) or not isinstance(record, dict):
        raise InputError(f"{source}: is refused by every worker; remove it, or export anew")
    return SeedDraft(key, record, source)


def draft_of_url(url: str, bounds: Bounds) -> SeedDraft:
    """The article behind an address, as a seed that is not published yet."""
    page = fetch(url, bounds)
    article = article_of(page)
    return draft_of(article, seed_id(article.title, page.url), url)


def change_seed(
    topic: SeedTopic, state: ControlState, name: str, changes: Mapping[str, Any], config: Config
) -> Compared:
    """Publish the latest record of a seed or profile with changes; None takes a key away."""
    return change_seeds(topic, state, [name], changes, config)[0]


def change_seeds(
    topic: SeedTopic, state: ControlState, names: Iterable[str], changes: Mapping[str, Any],
    config: Config,
) -> list[Compared]:  # fmt: skip
    """The same of several; all of them, or none if one is unknown or refused."""
    values: dict[bytes, bytes | None] = {}
    contents: list[Compared] = []
    for name in names:
        key = key_of(state, name)
        record = record_object(name, state.value(key)) | _allowed(name, changes)
        draft = SeedDraft(name, record, f"seed {name!r}")
        contents.append(parse_draft(draft, key, config))
        values[key] = draft.value
    topic.publish(values, state)
    return contents


def remove_seeds(topic: SeedTopic, state: ControlState, names: Iterable[str]) -> None:
    """Delete seeds; all of them, or none if one is unknown."""
    topic.publish(dict.fromkeys([key_of(state, name) for name in names]), state)


def record_object(name: str, value: bytes | None) -> dict[str, Any]:
    """The latest record of a seed as it is, unknown keys included."""
    try:
        return object_in(value or b"")
    except InputError:
        raise InputError(
            f"seed {name!r}: its record is no JSON object; add the seed again"
        ) from None


def _allowed(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What is to change: of a profile the threshold alone, whose promise was of another one."""
    if not name.startswith(PREFIX):
        return dict(changes)
    if changes.keys() != {"threshold"}:
        raise InputError("of a profile only the threshold can be set")
    return {**changes, "promise": None}
