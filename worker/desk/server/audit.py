"""The audit: a line of the log for everything that somebody did at the desk, or was refused."""

import logging

import msgspec

from worker.desk.server.api import Endpoint
from worker.service.log import AUDIT
from worker.visible import cut

LONGEST_VALUE = 200  # characters of one detail
LONGEST_INSIDE = 40  # of one that is in another, so that several are told
LONGEST_LINE = 1000  # of all of them, and of the outcome
audit = logging.getLogger(AUDIT)
audit.setLevel(logging.INFO)  # whatever else is logged


def note(endpoint: Endpoint, asked: msgspec.Struct | None, outcome: str, address: str) -> None:
    """Who did what, from where, with what, and how it ended; what could not be read is left out."""
    details = {} if asked is None else msgspec.to_builtins(asked)
    by = details.pop("by", None)
    said = {name: _short(value) for name, value in details.items()}
    audit.info(
        "%s by %s from %s: %s: %s", endpoint.does, _json(by), address, _json(said),
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
