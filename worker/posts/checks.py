"""Checks of JSON before it is decoded, rejections with their details, and the making of a post."""

import re
from hashlib import sha256

import msgspec

from worker.config.limits import Limits
from worker.json_outline import (
    MAX_DEPTH,
    Outline,
    json_outline,
    longest_list_length,
    max_nesting,
    may_be_deep,
)
from worker.posts.attachments import NO_ATTACHMENTS, Attachments
from worker.posts.outcome import NO_POST, NO_WORDS, PassedOver, Post, Reading, Reason, Rejected
from worker.posts.times import utc

MAX_DETAIL_CHARS = 200
ID_DIGITS = 16
ESCAPE = re.compile(
    rb"""\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}   # a pair of surrogates
       | (\\u[dD][89a-fA-F][\da-fA-F]{2})                         # one that is alone
       | \\.""",
    re.VERBOSE | re.DOTALL,
)
SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F][\da-fA-F]{2}")
TYPE_MISMATCH = re.compile(r"Expected `([^`]*+)`, got `([^`]*+)`(?: - at `\$\.?([^`]*+)`)?")
TEXT_KEYS = {"text", "full_text", "content"}
ANY_JSON = msgspec.json.Decoder(msgspec.Raw)
JSON_TYPE_NAMES = {"str": "a string", "int": "an integer", "float": "a number", "bool": "a boolean",
         "array": "an array", "object": "an object", "null": "null"}  # fmt: skip


def rejection(reason: Reason, detail: str) -> Rejected:
    """The detail is short and has no control characters."""
    printable = "".join(c if c.isprintable() else "�" for c in detail[:MAX_DETAIL_CHARS])
    return Rejected(reason, printable)


def refusal(value: bytes, limits: Limits) -> Rejected | None:
    """Why a value must not be decoded: not UTF-8, nested too deep, or a list too long."""
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError as error:
            return rejection(Reason.INVALID_UTF8, f"value: is not UTF-8 at byte {error.start + 1}")
    long = len(value) > limits.list_items and value.count(b",") >= limits.list_items
    if not (long or may_be_deep(value)):
        return None
    return _shape_refusal(json_outline(value), limits.list_items)


def _shape_refusal(signs: Outline, most: int) -> Rejected | None:
    if max_nesting(signs) > MAX_DEPTH:
        return nesting_rejection()
    if len(signs) > most and (items := longest_list_length(signs)) > most:
        return rejection(Reason.LIST_ITEMS, f"value: a list has {items} items, more than {most}")
    return None


def nesting_rejection() -> Rejected:
    return rejection(Reason.TOO_DEEP, f"value: is nested deeper than {MAX_DEPTH} levels")


def diagnose(value: bytes, error: Exception) -> Rejected | PassedOver:
    """Why a value that passed `refusal` could not be decoded."""
    if isinstance(error, RecursionError):
        return nesting_rejection()
    if isinstance(error, msgspec.ValidationError):
        try:
            ANY_JSON.decode(value)  # the mismatch may precede an error of syntax
            return type_rejection(str(error))
        except (msgspec.DecodeError, RecursionError) as deeper:
            error = deeper
    return syntax_rejection(value, error)


def type_rejection(message: str) -> Rejected:
    """A rejection for a wrong type, from the decoder's message."""
    parts = TYPE_MISMATCH.fullmatch(message)
    if parts is None:  # such as: Integer value out of range - at `$.id`
        what, _, where = message.partition(" - at `$.")
        return rejection(Reason.WRONG_TYPE, f"{where.rstrip('`') or 'value'}: {what.lower()}")
    types = " or ".join(JSON_TYPE_NAMES.get(name, name) for name in parts[1].split(" | "))
    key = parts[3] or "value"
    reason = Reason.NO_TEXT if key.split(".")[-1] in TEXT_KEYS else Reason.WRONG_TYPE
    return rejection(
        reason, f"{key}: expected {types}, found {JSON_TYPE_NAMES.get(parts[2], parts[2])}"
    )


def syntax_rejection(value: bytes, error: Exception) -> Rejected | PassedOver:
    """A keep-alive, half of a surrogate pair, or broken JSON."""
    if value and not value.strip(b"\r\n"):
        return NO_POST
    half = next((escape for escape in ESCAPE.finditer(value) if escape[1]), None)
    if half and _is_json(SURROGATE_ESCAPE.sub(rb"\\u003f", value)):
        problem, place = half[1].decode(), half.start(1) + 1
        return rejection(Reason.LONE_SURROGATE, f"value: {problem} at byte {place} is alone")
    return rejection(Reason.BAD_JSON, f"value: {str(error) or type(error).__name__}")


def _is_json(value: bytes) -> bool:
    try:
        ANY_JSON.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


class Draft(msgspec.Struct, gc=False):
    """A post as its platform gives it, which may lack anything."""

    id: str | int | None = None
    text: str | None = None
    author: str | None = None
    created_at: str | int | float | None = None
    lang: str | None = None
    url: str | None = None


def text_id(text: str) -> str:
    """Of a plain post without one: the same text always gets the same id."""
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:ID_DIGITS]}"


def make_post(platform: str, draft: Draft, attachments: Attachments = NO_ATTACHMENTS) -> Reading:
    """Rejected without a text or a platform's id, passed over without words."""
    name = str(draft.id) if draft.id is not None else ""
    if not name or name.isspace():
        if platform != "plain":
            return rejection(Reason.NO_ID, f"id: {'missing' if draft.id is None else 'empty'}")
        name = text_id(draft.text or "")
    if draft.text is None:
        return rejection(Reason.NO_TEXT, "text: missing")
    if (not draft.text or draft.text.isspace()) and not any(attachments):
        return NO_WORDS
    created_at = None if draft.created_at is None else utc(draft.created_at)
    author, lang, url = draft.author or None, draft.lang or None, draft.url or None
    alt, card, links = attachments
    return Post(name, platform, draft.text, author, created_at, lang, url, alt, card, links)
