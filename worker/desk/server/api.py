"""Endpoints: what the page may ask and do, each a function of the desk and of a typed question."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from encoder.errors import InputError
from worker.seeds.values import EVENT_BYTES

if TYPE_CHECKING:
    from worker.desk.desk import Desk

DONE = "done"
LONGEST_NAME = 80  # characters of who acts
EventName = Annotated[str, msgspec.Meta(min_length=1, max_length=EVENT_BYTES)]
Q = TypeVar("Q", bound=msgspec.Struct)
Answer = Callable[["Desk", Q], object]


class Nothing(msgspec.Struct, frozen=True):
    """A question without a detail."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants done, and who that is: the name that the page was given."""

    by: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]


class OfEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event by its name."""

    event: EventName


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One thing that the page may ask (GET) or do (POST)."""

    path: str
    wants: type[msgspec.Struct]
    answer: Callable[["Desk", Any], object]
    does: str = ""  # what the audit calls it; nothing where it only reads
    outcome: Callable[[Any], str] = lambda _: DONE  # what the audit says of an answer

    def question(self, given: object, strict: bool) -> msgspec.Struct:
        """What was asked, or a refusal that names the key."""
        with _understood():
            return msgspec.convert(given, self.wants, strict=strict)

    def wanted(self, body: bytes) -> msgspec.Struct:
        """What the body of an action says, or a refusal; what nobody wants of it is not kept."""
        with _understood():
            return msgspec.json.decode(body, type=self.wants)


@contextmanager
def _understood() -> Iterator[None]:
    try:
        yield
    except msgspec.ValidationError as error:
        told, _, where = str(error).partition(" - at `$.")
        raise InputError(f"{where.rstrip('`') or 'question'}: {told}") from None
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
