"""Seed articles from files: plain text, Markdown with a title, pages that were saved, or JSON."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from encoder.errors import InputError
from worker.actions.seeds.naming import seed_id
from worker.config import Config
from worker.files.articles.article import Article
from worker.files.articles.page import Page
from worker.files.articles.read import PAGES, article_on, saved_page
from worker.files.read import DASH, text_in
from worker.seeds.record import RefusedSeed, Seed, read_seed

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
    def key(self) -> bytes:
        """The key of the record."""
        return self.id.encode("utf-8", "surrogatepass")

    @property
    def value(self) -> bytes:
        """The record as JSON, without the keys that are not set."""
        kept = {name: value for name, value in self.record.items() if value not in (None, "")}
        try:
            return json.dumps(kept, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return json.dumps(kept).encode()


def read_seed_files(paths: Iterable[Path]) -> list[SeedDraft]:
    """The seeds of these files, and of the folders' files, in order; two of one id are refused."""
    drafts: dict[str, SeedDraft] = {}
    for draft in _all_read(list(_files(paths))):
        if other := drafts.get(draft.id):
            raise InputError(
                f"{draft.source} and {other.source} are both seed {draft.id!r}; "
                "rename one, or add it with --id"
            )
        drafts[draft.id] = draft
    return list(drafts.values())


def _all_read(files: Sequence[Path]) -> Iterator[SeedDraft]:
    """The seeds of these files in their order; each page is taken apart in a process of its own."""
    if len(files) == 1:
        yield from _read(files[0])
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for drafts in pool.map(lambda file: list(_read(file)), files):
            yield from drafts


def undoubted(drafts: Iterable[SeedDraft], remedy: str = "") -> None:
    """Refuse what was taken from a page and looks like no article."""
    for draft in drafts:
        if draft.doubt:
            Article("", draft.record["text"], doubt=draft.doubt).undoubted(draft.source, remedy)


def draft_of(article: Article, name: str, source: str) -> SeedDraft:
    """The seed that an article makes."""
    record = {"text": article.text, "title": article.title, "url": article.url}
    return SeedDraft(name, record, source, doubt=article.doubt)


def seed_of(draft: SeedDraft, config: Config) -> Seed:
    """The seed as every worker will read it; refused here rather than there."""
    found = read_seed(draft.key, draft.value, config.limits)
    if not isinstance(found, Seed):
        raise draft_refusal(found, draft)
    return found


def draft_refusal(found: RefusedSeed | None, draft: SeedDraft) -> InputError:
    """What is wrong with a draft that workers would refuse."""
    return InputError(f"{draft.source}: {'is empty' if found is None else found.reason}")


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        inside = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
        if not inside:
            raise InputError(f"{path}: holds no seed ({', '.join(SUFFIXES)})")
        yield from inside


def _read(file: Path) -> Iterator[SeedDraft]:
    return drafts_in(saved_page(file), file)


def drafts_in(page: Page, file: Path) -> Iterator[SeedDraft]:
    """The seeds in the bytes of a file; a seed's id is its `id`, else the name without its ending.

    Of a file without a name, which is -, it is made of the title.
    """
    suffix = file.suffix.lower()
    if suffix in JSON:
        yield from _from_text(text_in(page.body, page.url), file, suffix == ".jsonl")
    elif file != DASH:
        yield draft_of(article_on(page, suffix in PAGES), file.stem, str(file))
    elif page.body.lstrip().startswith(b"{"):
        yield from _from_text(page.body.decode("utf-8", "replace"), Path(page.url), False)
    else:
        yield _unnamed(article_on(page), page)


def _unnamed(article: Article, page: Page) -> SeedDraft:
    """A seed whose id is made of its title, or of its first words."""
    return draft_of(article, seed_id(article.title or article.text[:200], ""), page.url)


def _from_text(text: str, file: Path, by_line: bool) -> Iterator[SeedDraft]:
    rows = [row for row in text.split("\n") if row.strip()] if by_line else [text]
    found = [item for row in rows for item in _items(row, file)]
    if not found:
        raise InputError(f"{file}: holds no seed")
    for number, item in enumerate(found, 1):
        source = f"{file}" if len(found) == 1 else f"{file}, seed {number}"
        if not isinstance(item, dict):
            raise InputError(f'{source}: is no JSON object; write {{"text": …, "title": …}}')
        yield _from_json(item, file.stem if len(found) == 1 else None, source)


def _items(text: str, file: Path) -> list[Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{file}: is no JSON; mend it") from None
    return found if isinstance(found, list) else [found]


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
