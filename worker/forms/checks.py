"""What is wrong with a value: told before it is decoded, or found out when decoding failed."""

import re
from itertools import accumulate

import msgspec

from worker.forms.outcome import NO_POST, PassedOver, Reason, Rejected

DEPTH = 200
LONGEST_DETAIL = 200
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
STEPS = bytes.maketrans(b"[]{}", b"\1\0\1\0")
ESCAPE = re.compile(
    rb"""\\(?: u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}   # a pair
             | (u[dD][89a-fA-F][\da-fA-F]{2})                          # half of one
             | . )""",
    re.VERBOSE | re.DOTALL,
)
MISMATCH = re.compile(r"Expected `(.*)`, got `(.*?)`(?: - at `\$\.?(.*)`)?", re.DOTALL)
TEXT_KEYS = {"text", "full_text", "content"}
SYNTAX = msgspec.json.Decoder(msgspec.Raw)
NAMES = {"str": "a string", "int": "an integer", "float": "a number", "bool": "a boolean",
         "array": "an array", "object": "an object", "null": "null"}  # fmt: skip


def rejected(reason: Reason, detail: str) -> Rejected:
    """A rejection whose detail is short and holds nothing that steers a terminal."""
    shown = "".join(c if c.isprintable() else "�" for c in detail[:LONGEST_DETAIL])
    return Rejected(reason, shown)


def refusal(value: bytes) -> Rejected | None:
    """Why a value is not even to be decoded: it is no UTF-8, or nested too deeply."""
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError as error:
            return rejected(Reason.INVALID_UTF8, f"value: is not UTF-8 at byte {error.start + 1}")
    # The decoder's own limit moves with the stack it is called on; this one does not.
    if len(value) > DEPTH and value.count(b"[") + value.count(b"{") > DEPTH and deep(value):
        return too_deep()
    return None


def too_deep() -> Rejected:
    """The rejection of a value that is nested too deeply."""
    return rejected(Reason.TOO_DEEP, f"value: is nested deeper than {DEPTH} levels")


def deep(value: bytes) -> bool:
    """Whether objects and arrays, outside strings, stand more than DEPTH inside each other."""
    bare = value.replace(rb"\\", b"").replace(rb"\"", b"")
    outside = b"".join(bare.split(b'"')[::2])
    steps = map((-1, 1).__getitem__, outside.translate(STEPS, NOT_BRACKETS))
    return max(accumulate(steps), default=0) > DEPTH


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
    halves = [found for found in ESCAPE.finditer(value) if found[1]]
    if halves and _is_json(ESCAPE.sub(lambda found: b"?" if found[1] else found[0], value)):
        half = halves[0]
        told = half[0].decode()
        return rejected(Reason.LONE_SURROGATE, f"value: {told} at byte {half.start() + 1} is alone")
    return rejected(Reason.BAD_JSON, f"value: {str(error) or type(error).__name__}")


def _is_json(value: bytes) -> bool:
    try:
        SYNTAX.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
