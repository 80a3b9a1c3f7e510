"""Endpoints: what the page may ask and do, each a function of the desk and of a typed question."""

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
from worker.seeds.record import EVENT_BYTES
from worker.text import cut

if TYPE_CHECKING:
    from newsift.desk.session import Desk

LONGEST_FILE_NAME = 100  # characters
ODD = re.compile(r"[^\w.]+")
DONE = "done"
LONGEST_NAME = 80  # characters of who acts
EventName = Annotated[str, msgspec.Meta(min_length=1, max_length=EVENT_BYTES)]
Q = TypeVar("Q", bound=msgspec.Struct)
Answer = Callable[["Desk", Q], object]
LONGEST_VALUE = 200  # characters of one detail
LONGEST_INSIDE = 40  # of one that is in another, so that several are told
LONGEST_LINE = 1000  # of all of them, and of the outcome
audit = logging.getLogger(AUDIT)
audit.setLevel(logging.INFO)  # whatever else is logged


class Nothing(msgspec.Struct, frozen=True):
    """A question without a detail."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants done, and who that is: the name that the page was given."""

    by: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]


class OfEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event by its name."""

    event: EventName


@dataclass(frozen=True, slots=True)
class Attachment:
    """What a file is called and holds, and its content, closed once it is sent."""

    name: str
    kind: str
    content: IO[bytes]

    @property
    def headers(self) -> dict[str, str]:
        """What a browser needs to save it under a name that is no path, in any letters."""
        name = ODD.sub("-", self.name)[-LONGEST_FILE_NAME:].strip("-.")
        plain = name.encode("ascii", "ignore").decode()
        disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
        return {"Content-Type": self.kind, "Content-Disposition": disposition}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One thing that the page may ask (GET) or do (POST)."""

    path: str
    wants: type[msgspec.Struct]
    answer: Callable[["Desk", Any], object]
    does: str = ""  # what the audit calls it; nothing where it only reads
    outcome: Callable[[Any], str] = lambda _: DONE  # what the audit says of an answer

    def question(self, values: object, strict: bool) -> msgspec.Struct:
        """What was asked, or a refusal that names the key."""
        with _understood():
            return msgspec.convert(values, self.wants, strict=strict)

    def decode(self, body: bytes) -> msgspec.Struct:
        """What the body of an action says, or a refusal; what nobody wants of it is not kept."""
        with _understood():
            return msgspec.json.decode(body, type=self.wants)


@contextmanager
def _understood() -> Iterator[None]:
    try:
        yield
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$.")
        raise InputError(f"{where.rstrip('`') or 'question'}: {reason}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise InputError(f"question: bad JSON ({error})") from None


def reads(path: str, wants: type[Q]) -> Callable[[Answer[Q]], Endpoint]:
    """Make a function the answer to a question that changes nothing."""
    return lambda answer: Endpoint(path, wants, answer)


def acts(
    path: str, wants: type[Q], does: str, outcome: Callable[[Any], str] = lambda _: DONE
) -> Callable[[Answer[Q]], Endpoint]:
    """Make a function what does something; the audit calls it `does`, and its end `outcome`."""
    return lambda answer: Endpoint(path, wants, answer, does, outcome)


def note(endpoint: Endpoint, request: msgspec.Struct | None, outcome: str, address: str) -> None:
    """Who did what, from where, with what, and how it ended; what could not be read is left out."""
    details = {} if request is None else msgspec.to_builtins(request)
    by = details.pop("by", None)
    shortened = {name: _short(value) for name, value in details.items()}
    audit.info(
        "%s by %s from %s: %s: %s", endpoint.does, _json(by), address, _json(shortened),
        cut(outcome, LONGEST_LINE),
    )  # fmt: skip


def _short(value: object, most: int = LONGEST_VALUE) -> object:
    if isinstance(value, str):
        return cut(value, most)
    if isinstance(value, list):
        return [_short(each, LONGEST_INSIDE) for each in value]
    if isinstance(value, dict):
        return {name: _short(each, LONGEST_INSIDE) for name, each in value.items()}
    return value


def _json(value: object) -> str:
    return cut(msgspec.json.encode(value).decode(), LONGEST_LINE)
