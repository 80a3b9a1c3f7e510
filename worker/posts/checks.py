"""What is wrong with a value: told before it is decoded, or found out when decoding failed."""

import re

import msgspec

from worker.config import Limits
from worker.posts.outcome import NO_POST, PassedOver, Reason, Rejected
from worker.posts.outline import Signs, depth, longest_list, outline

DEPTH = 200
LONGEST_DETAIL = 200
HALF = re.compile(
    rb"""(?: [^\\]++
           | \\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}   # a pair
           | \\(?!u[dD][89a-fA-F][\da-fA-F]{2}).                        # any other escape
         )*+ (\\u[dD][89a-fA-F][\da-fA-F]{2})""",
    re.VERBOSE | re.DOTALL,
)
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][\da-fA-F]{2}")
MISMATCH = re.compile(r"Expected `([^`]*+)`, got `([^`]*+)`(?: - at `\$\.?([^`]*+)`)?")
TEXT_KEYS = {"text", "full_text", "content"}
SYNTAX = msgspec.json.Decoder(msgspec.Raw)
NAMES = {"str": "a string", "int": "an integer", "float": "a number", "bool": "a boolean",
         "array": "an array", "object": "an object", "null": "null"}  # fmt: skip


def rejected(reason: Reason, detail: str) -> Rejected:
    """A rejection whose detail is short and holds nothing that steers a terminal."""
    shown = "".join(c if c.isprintable() else "�" for c in detail[:LONGEST_DETAIL])
    return Rejected(reason, shown)


def refusal(value: bytes, limits: Limits) -> Rejected | None:
    """Why a value is not even to be decoded: it is no UTF-8, too deep, or holds too long a list."""
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError as error:
            return rejected(Reason.INVALID_UTF8, f"value: is not UTF-8 at byte {error.start + 1}")
    # The decoder's own limit moves with the stack it is called on; this one does not.
    nested = len(value) > DEPTH and value.count(b"[") + value.count(b"{") > DEPTH
    long = len(value) > limits.list_items and value.count(b",") >= limits.list_items
    return _shape_refusal(outline(value), limits.list_items) if nested or long else None


def _shape_refusal(signs: Signs, most: int) -> Rejected | None:
    if depth(signs) > DEPTH:
        return too_deep()
    if len(signs) > most and (items := longest_list(signs)) > most:
        return rejected(Reason.LIST_ITEMS, f"value: a list has {items} items, more than {most}")
    return None


def too_deep() -> Rejected:
    """The rejection of a value that is nested too deeply."""
    return rejected(Reason.TOO_DEEP, f"value: is nested deeper than {DEPTH} levels")


def diagnosis(value: bytes, error: Exception) -> Rejected | PassedOver:
    """Why a value that passed `refusal` could not be decoded."""
    if isinstance(error, RecursionError):
        return too_deep()
    if isinstance(error, msgspec.ValidationError):
        try:
            SYNTAX.decode(value)  # the mismatch may stand in front of an error of syntax
            return mismatch(str(error))
        except (msgspec.DecodeError, RecursionError) as deeper:
            error = deeper
    return malformed(value, error)


def mismatch(message: str) -> Rejected:
    """A value of the wrong type, by the decoder's message."""
    found = MISMATCH.fullmatch(message)
    if found is None:  # such as: Integer value out of range - at `$.id`
        what, _, where = message.partition(" - at `$.")
        return rejected(Reason.WRONG_TYPE, f"{where.rstrip('`') or 'value'}: {what.lower()}")
    expected = " or ".join(NAMES.get(name, name) for name in found[1].split(" | "))
    key = found[3] or "value"
    reason = Reason.NO_TEXT if key.split(".")[-1] in TEXT_KEYS else Reason.WRONG_TYPE
    return rejected(reason, f"{key}: expected {expected}, found {NAMES.get(found[2], found[2])}")


def malformed(value: bytes, error: Exception) -> Rejected | PassedOver:
    """Bytes that are no JSON: a keep-alive, half of a surrogate pair, or simply wrong."""
    if value and not value.strip(b"\r\n"):
        return NO_POST
    half = HALF.match(value)
    if half and _is_json(SURROGATE.sub(rb"\\u003f", value)):
        told, place = half[1].decode(), half.start(1) + 1
        return rejected(Reason.LONE_SURROGATE, f"value: {told} at byte {place} is alone")
    return rejected(Reason.BAD_JSON, f"value: {str(error) or type(error).__name__}")


def _is_json(value: bytes) -> bool:
    try:
        SYNTAX.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
