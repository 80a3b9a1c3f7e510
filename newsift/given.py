"""What users hand over as posts and as articles, read item by item or refused with the remedy."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from encoder.errors import InputError
from encoder.model.config import Side
from encoder.text.clean import each_of, is_pair
from worker.seeds.values import EVENT_BYTES

Given: TypeAlias = str | tuple[str, str] | Mapping[str, Any] | list[Any]
ID = "id"


class Post(NamedTuple):
    """A post with its id."""

    id: Any
    text: str


def read_posts(posts: Any, text: str, id: str | None) -> Iterator[Post]:
    """The posts one by one: of a table the two columns, else texts or dicts."""
    if hasattr(posts, "columns"):
        texts = _column(posts, text)
        named = id is not None or ID in posts.columns
        pairs = zip(_column(posts, id or ID) if named else texts, texts, strict=True)
        items: Iterable[Any] = ({ID: key if named else None, text: said} for key, said in pairs)
        id = ID
    elif isinstance(posts, Mapping):
        raise InputError("posts: a single dict was given; put it into a list")
    else:
        items = each_of(posts, Side.POST)
    return (_post(item, text, id or ID, number) for number, item in enumerate(items))


def read_articles(articles: Any) -> Iterator[tuple[str, bytes]]:
    """Where each article stands in what was given, and its record as on the control topic."""
    if not isinstance(articles, Mapping):
        for number, item in enumerate(each_of(articles, Side.ARTICLE)):
            yield _article(item, f"articles[{number}]", None, f"article {number + 1}")
        return
    if isinstance(articles.get("text"), str):
        raise InputError("articles: a single record was given; put it into a list")
    for event, given in articles.items():
        for item in given if isinstance(given, list) else [given]:
            yield _article(item, f"articles[{event!r}]", str(event), "")


def _column(table: Any, name: str) -> Any:
    if name not in table.columns:
        there = ", ".join(map(repr, table.columns))
        raise InputError(f"posts: no column {name!r}; name it by text= or id= ({there} are there)")
    return table[name]


def _post(item: Any, text: str, id: str, number: int) -> Post:
    said, name = (item.get(text), item.get(id)) if isinstance(item, Mapping) else (item, None)
    if not isinstance(said, str):
        kind = "no text" if said is None else type(said).__name__
        raise InputError(f"posts[{number}]: {kind}, expected a str under {text!r}; leave it out")
    if name is None or name != name:  # NaN, which stands for nothing in a table
        digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"sha256:{digest[:16]}"
    return Post(name, said)


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
