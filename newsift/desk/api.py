"""Endpoints: functions of the desk and of a typed request; the audit log of actions."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec

from encoder.errors import InputError
from worker.log import AUDIT
from worker.posts.outcome import Post
from worker.posts.times import utc
from worker.seeds.record import EVENT_BYTES
from worker.text import cut

if TYPE_CHECKING:
    from newsift.desk.session import Desk

FILE_NAME_CHARS = 100
NOT_IN_NAMES = re.compile(r"[^\w.]+")
DONE = "done"
BY_CHARS = 80
WHOLE_CHARS, AUTHOR_CHARS, URL_CHARS = 50_000, 200, 1_024  # of a post on a page
EventName = Annotated[str, msgspec.Meta(min_length=1, max_length=EVENT_BYTES)]
Q = TypeVar("Q", bound=msgspec.Struct)
Function = Callable[["Desk", Q], object]
VALUE_CHARS, NESTED_CHARS = 200, 40  # of one detail in the audit log, and of one within another
LINE_CHARS = 1000  # of all details, and of the outcome
audit = logging.getLogger(AUDIT)
audit.setLevel(logging.INFO)  # whatever else is logged


def post_fields(post: Post, text_chars: int = WHOLE_CHARS) -> dict[str, Any]:
    """A post for the page; whoever may write to a topic may have written long texts."""
    return {
        "id": post.id,
        "platform": post.platform,
        "text": cut(post.text, text_chars),
        "author": cut(post.author or "", AUTHOR_CHARS),
        "created_at": utc(post.created_at),
        "url": post.url if len(post.url or "") <= URL_CHARS else None,
    }


class Nothing(msgspec.Struct, frozen=True):
    pass


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a user does; `by` is the name that the page was given."""

    by: Annotated[str, msgspec.Meta(min_length=1, max_length=BY_CHARS)]


class OfEvent(msgspec.Struct, frozen=True, kw_only=True):
    event: EventName


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file to save; its content is closed once it is sent."""

    name: str
    kind: str
    content: IO[bytes]

    @property
    def headers(self) -> dict[str, str]:
        """A name that is no path, in any script."""
        name = NOT_IN_NAMES.sub("-", self.name)[-FILE_NAME_CHARS:].strip("-.")
        plain = name.encode("ascii", "ignore").decode()
        disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
        return {"Content-Type": self.kind, "Content-Disposition": disposition}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """GET, or POST where it has a name in the audit log."""

    path: str
    request: type[msgspec.Struct]
    function: Callable[["Desk", Any], object]
    audit_name: str = ""
    outcome: Callable[[Any], str] = lambda _: DONE  # of an answer, for the audit log

    def convert(self, values: object, strict: bool) -> msgspec.Struct:
        with _key_named():
            return msgspec.convert(values, self.request, strict=strict)

    def decode(self, body: bytes) -> msgspec.Struct:
        """The request in a body; keys that it does not have are dropped."""
        with _key_named():
            return msgspec.json.decode(body, type=self.request)


@contextmanager
def _key_named() -> Iterator[None]:
    try:
        yield
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$.")
        raise InputError(f"{where.rstrip('`') or 'request'}: {reason}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise InputError(f"request: bad JSON ({error})") from None


def reads(path: str, request: type[Q]) -> Callable[[Function[Q]], Endpoint]:
    return lambda function: Endpoint(path, request, function)


def acts(
    path: str, request: type[Q], audit_name: str, outcome: Callable[[Any], str] = lambda _: DONE
) -> Callable[[Function[Q]], Endpoint]:
    return lambda function: Endpoint(path, request, function, audit_name, outcome)


def log_action(endpoint: Endpoint, request: msgspec.Struct, outcome: str, address: str) -> None:
    details = msgspec.to_builtins(request)
    by = details.pop("by", None)
    fields = {name: _shorten(value) for name, value in details.items()}
    audit.info(
        "%s by %s from %s: %s: %s", endpoint.audit_name, _json(by), address, _json(fields),
        cut(outcome, LINE_CHARS),
    )  # fmt: skip


def _shorten(value: object, most: int = VALUE_CHARS) -> object:
    if isinstance(value, str):
        return cut(value, most)
    if isinstance(value, list):
        return [_shorten(each, NESTED_CHARS) for each in value]
    if isinstance(value, dict):
        return {name: _shorten(each, NESTED_CHARS) for name, each in value.items()}
    return value


def _json(value: object) -> str:
    return cut(msgspec.json.encode(value).decode(), LINE_CHARS)
