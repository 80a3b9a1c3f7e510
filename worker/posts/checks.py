"""The structure of JSON: nesting depth and list lengths, computed without decoding."""

import re

import msgspec
import numpy as np
from numpy.typing import NDArray

from worker.config.limits import Limits
from worker.posts.outcome import NO_POST, NO_WORDS, PassedOver, Post, Reading, Reason, Rejected
from worker.posts.times import utc

Signs = NDArray[np.uint8]

LIST, OBJECT, END, COMMA = 1, 2, 3, 4
STEPS = np.array([0, 1, 1, -1, 0], np.int8)
SIGNS = np.zeros(256, np.uint8)
SIGNS[list(b"[{]},")] = LIST, OBJECT, END, END, COMMA
QUOTE = ord('"')


def outline(value: bytes) -> Signs:
    """The brackets, braces and commas outside of strings, in order."""
    bare = value.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in value else value
    letters = np.frombuffer(bare, np.uint8)
    signs = SIGNS[letters]
    inside = np.bitwise_xor.accumulate(letters == QUOTE)
    return signs[(signs > 0) & ~inside]


def levels(signs: Signs) -> NDArray[np.int32]:
    """The number of open objects and lists after each sign."""
    return np.cumsum(STEPS[signs], dtype=np.int32)


def depth(signs: Signs) -> int:
    """The greatest nesting of objects and lists."""
    return int(levels(signs).max(initial=0))


def longest_list(signs: Signs) -> int:
    """The length of the longest list, for a nesting of at most 255."""
    around = (levels(signs) + (signs == END)).clip(0, 255).astype(np.uint8)
    # Level by level: what is between two opening brackets belongs to the first.
    signs = signs[np.argsort(around, kind="stable")]
    opens = np.flatnonzero((signs == LIST) | (signs == OBJECT))
    commas = np.append(0, np.cumsum(signs == COMMA, dtype=np.int32))
    between = np.diff(np.append(commas[opens], commas[-1]))
    return int(between[signs[opens] == LIST].max(initial=-1)) + 1


DEPTH = 200
MAX_DETAIL_CHARS = 200
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
    """A rejection with a short detail that contains no control characters."""
    printable = "".join(c if c.isprintable() else "�" for c in detail[:MAX_DETAIL_CHARS])
    return Rejected(reason, printable)


def refusal(value: bytes, limits: Limits) -> Rejected | None:
    """Why a value must not be decoded: it is not UTF-8, too deep, or has too long a list."""
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
            SYNTAX.decode(value)  # the mismatch may precede an error of syntax
            return mismatch(str(error))
        except (msgspec.DecodeError, RecursionError) as deeper:
            error = deeper
    return malformed(value, error)


def mismatch(message: str) -> Rejected:
    """A value of the wrong type, by the decoder's message."""
    parts = MISMATCH.fullmatch(message)
    if parts is None:  # such as: Integer value out of range - at `$.id`
        what, _, where = message.partition(" - at `$.")
        return rejected(Reason.WRONG_TYPE, f"{where.rstrip('`') or 'value'}: {what.lower()}")
    expected = " or ".join(NAMES.get(name, name) for name in parts[1].split(" | "))
    key = parts[3] or "value"
    reason = Reason.NO_TEXT if key.split(".")[-1] in TEXT_KEYS else Reason.WRONG_TYPE
    return rejected(reason, f"{key}: expected {expected}, found {NAMES.get(parts[2], parts[2])}")


def malformed(value: bytes, error: Exception) -> Rejected | PassedOver:
    """Bytes that are not JSON: a keep-alive, half of a surrogate pair, or broken."""
    if value and not value.strip(b"\r\n"):
        return NO_POST
    half = HALF.match(value)
    if half and _is_json(SURROGATE.sub(rb"\\u003f", value)):
        problem, place = half[1].decode(), half.start(1) + 1
        return rejected(Reason.LONE_SURROGATE, f"value: {problem} at byte {place} is alone")
    return rejected(Reason.BAD_JSON, f"value: {str(error) or type(error).__name__}")


def _is_json(value: bytes) -> bool:
    try:
        SYNTAX.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def made(
    platform: str, id: str | int | None, text: str | None, author: str | None = None,
    created_at: str | float | None = None, lang: str | None = None, url: str | None = None,
) -> Reading:  # fmt: skip
    """The post; rejected without an id or a text, passed over without words."""
    name = str(id) if id is not None else ""
    if not name or name.isspace():
        return rejected(Reason.NO_ID, f"id: {'missing' if id is None else 'empty'}")
    if text is None:
        return rejected(Reason.NO_TEXT, "text: missing")
    if not text or text.isspace():
        return NO_WORDS
    return Post(name, platform, text, author or None, utc(created_at), lang or None, url or None)
