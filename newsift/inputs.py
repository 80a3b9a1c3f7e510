"""Posts and articles of the Python interface, checked item by item."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from encoder.errors import InputError
from encoder.model.config import Side
from encoder.text.clean import each_of, is_pair
from worker.seeds.record import EVENT_BYTES

InputItem: TypeAlias = str | tuple[str, str] | Mapping[str, Any] | list[Any]
ID = "id"


class Post(NamedTuple):
    id: Any
    text: str


def read_posts(posts: Any, text: str, id: str | None) -> Iterator[Post]:
    """From two columns of a table, or from texts or dicts."""
    if hasattr(posts, "columns"):
        texts = _column(posts, text)
        named = id is not None or ID in posts.columns
        pairs = zip(_column(posts, id or ID) if named else texts, texts, strict=True)
        items: Iterable[Any] = ({ID: key if named else None, text: value} for key, value in pairs)
        id = ID
    elif isinstance(posts, Mapping):
        raise InputError("posts: a single dict was given; put it into a list")
    else:
        items = each_of(posts, Side.POST)
    return (_post(item, text, id or ID, number) for number, item in enumerate(items))


def read_articles(articles: Any) -> Iterator[tuple[str, bytes]]:
    """The place of each article in the input, and its record as on the control topic."""
    if not isinstance(articles, Mapping):
        for number, item in enumerate(each_of(articles, Side.ARTICLE)):
            yield _article(item, f"articles[{number}]", None, f"article {number + 1}")
        return
    if isinstance(articles.get("text"), str):
        raise InputError("articles: a single record was given; put it into a list")
    for event, items in articles.items():
        for item in items if isinstance(items, list) else [items]:
            yield _article(item, f"articles[{event!r}]", str(event), "")


def _column(table: Any, name: str) -> Any:
    if name not in table.columns:
        there = ", ".join(map(repr, table.columns))
        raise InputError(f"posts: no column {name!r}; name it by text= or id= ({there} are there)")
    return table[name]


def _post(item: Any, text: str, id: str, number: int) -> Post:
    content, name = (item.get(text), item.get(id)) if isinstance(item, Mapping) else (item, None)
    if not isinstance(content, str):
        kind = "no text" if content is None else type(content).__name__
        raise InputError(f"posts[{number}]: {kind}, expected a str under {text!r}; leave it out")
    if name is None or name != name:  # NaN, which stands for nothing in a table
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"sha256:{digest[:16]}"
    return Post(name, content)


def _article(item: Any, place: str, event: str | None, otherwise: str) -> tuple[str, bytes]:
    if isinstance(item, str):
        item = {"text": item}
    elif is_pair(item):
        item = {"title": item[0], "text": item[1]}
    elif not isinstance(item, Mapping):
        kind = type(item).__name__
        raise InputError(f"{place}: {kind}, expected a text, a (title, text) or a seed record")
    record = dict(item)
    title = str(item.get("title") or "").encode("utf-8", "ignore")[:EVENT_BYTES]
    record["event"] = event or item.get("event") or title.decode("utf-8", "ignore") or otherwise
    try:
        return place, json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except TypeError as error:
        raise InputError(f"{place}: is no seed record ({error})") from error
