"""Endpoints of the desk: typed requests, functions that answer them, and the audit log."""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec

from encoder.errors import InputError
from worker.log import AUDIT_LOGGER
from worker.seeds.record import MAX_EVENT_BYTES
from worker.text import shorten

MAX_FILE_NAME_CHARS = 100
NOT_IN_NAMES = re.compile(r"[^\w.]+")
DONE_OUTCOME = "done"
MAX_BY_CHARS = 80
By = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_BY_CHARS)]
EventName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_EVENT_BYTES)]
Q = TypeVar("Q", bound=msgspec.Struct)
EndpointFunction = Callable[[Any, Q], object]  # of a Desk, or of Projects
# The audit log shortens each detail, and details within another more.
MAX_VALUE_CHARS, MAX_NESTED_CHARS = 200, 40
MAX_LINE_CHARS = 1000
audit = logging.getLogger(AUDIT_LOGGER)
audit.setLevel(logging.INFO)  # whatever else is logged


def _say_done(_answer: object) -> str:
    return DONE_OUTCOME


class EmptyRequest(msgspec.Struct, frozen=True):
    pass


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """`by` is the name that the user gave to the page."""

    by: By


class EventRequest(msgspec.Struct, frozen=True, kw_only=True):
    event: EventName


def clean_file_name(name: str) -> str:
    """Without what could make a path of it; may be empty."""
    return NOT_IN_NAMES.sub("-", name)[-MAX_FILE_NAME_CHARS:].strip("-.")


@dataclass(frozen=True, slots=True)
class Download:
    """A file to download; its content is closed once it is sent."""

    name: str
    kind: str
    content: IO[bytes]

    @property
    def headers(self) -> dict[str, str]:
        """The name may be of any script; it holds no path."""
        name = clean_file_name(self.name)
        plain = name.encode("ascii", "ignore").decode()
        disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
        return {"Content-Type": self.kind, "Content-Disposition": disposition}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """POST if it has a name in the audit log, else GET."""

    path: str
    request: type[msgspec.Struct]
    function: Callable[[Any, Any], object]
    audit_name: str = ""
    takes_projects: bool = False  # the function gets all projects, and not the desk of one
    outcome: Callable[[Any], str] = _say_done  # of an answer, for the audit log

    def parse(self, content: dict[str, str] | bytes) -> msgspec.Struct:
        """Parse a query or a body; unknown keys are dropped."""
        try:
            if isinstance(content, bytes):
                return msgspec.json.decode(content, type=self.request)
            return msgspec.convert(content, self.request, strict=False)
        except msgspec.ValidationError as error:
            reason, _, where = str(error).partition(" - at `$.")
            raise InputError(f"{where.rstrip('`') or 'request'}: {reason}") from None
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise InputError(f"request: bad JSON ({error})") from None


def get_endpoint(path: str, request: type[Q]) -> Callable[[EndpointFunction[Q]], Endpoint]:
    return lambda function: Endpoint(path, request, function)


def post_endpoint(
    path: str,
    request: type[Q],
    audit_name: str,
    outcome: Callable[[Any], str] = _say_done,
) -> Callable[[EndpointFunction[Q]], Endpoint]:
    return lambda function: Endpoint(path, request, function, audit_name, outcome=outcome)


def log_action(endpoint: Endpoint, request: msgspec.Struct, outcome: str, address: str) -> None:
    details = msgspec.to_builtins(request, builtin_types=(bytes,))
    by = details.pop("by", None)
    fields = {name: _shorten(value) for name, value in details.items()}
    audit.info(
        "%s by %s from %s: %s: %s", endpoint.audit_name, _json(by), address, _json(fields),
        shorten(outcome, MAX_LINE_CHARS),
    )  # fmt: skip


def _shorten(value: object, most: int = MAX_VALUE_CHARS) -> object:
    if isinstance(value, str):
        return shorten(value, most)
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, list):
        return [_shorten(item, MAX_NESTED_CHARS) for item in value]
    if isinstance(value, dict):
        return {name: _shorten(item, MAX_NESTED_CHARS) for name, item in value.items()}
    return value


def _json(value: object) -> str:
    return shorten(msgspec.json.encode(value).decode(), MAX_LINE_CHARS)
