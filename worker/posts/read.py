"""Bytes to posts: a message of any supported form becomes a post, rejected, or passed over."""

from collections.abc import Callable

import msgspec

from encoder.support.letters import most_marks
from worker.config.limits import DEFAULT_LIMITS, Limits
from worker.posts import bluesky, mastodon, plain, x, x1
from worker.posts.checks import diagnosis, refusal, rejected
from worker.posts.languages import ALL, Languages
from worker.posts.outcome import (
    NO_POST,
    OTHER_LANGUAGE,
    PassedOver,
    Post,
    Reading,
    Reason,
    Rejected,
)
from worker.posts.shape import NOTICE, shape

__all__ = ["FORMS", "PassedOver", "Post", "Reading", "Reason", "Rejected", "read_post"]

FORMS = ("auto", "x", "x1", "bluesky", "mastodon", "plain")
READERS: dict[str | None, Callable[[bytes], Reading]] = {
    "x": x.read,
    "x1": x1.read,
    "plain": plain.read,
    NOTICE: lambda _: NO_POST,
    None: lambda value: _unknown(value),
}
NAMED_KEYS_BYTES = 2**16  # bytes of a value of unknown form whose keys an error names
OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
LACKING = (Reason.NO_ID, Reason.NO_TEXT)


def read_post(
    value: bytes | None, form: str = "auto", limits: Limits = DEFAULT_LIMITS,
    langs: Languages = ALL,
) -> Reading:  # fmt: skip
    """The content of a message's value. Never raises, whatever the bytes."""
    if not value:
        kind = "null" if value is None else "empty"
        return rejected(Reason.EMPTY_VALUE, f"value: {kind}")
    if len(value) > limits.post_bytes:
        detail = f"value: {len(value)} bytes, more than {limits.post_bytes}"
        return rejected(Reason.POST_BYTES, detail)
    bad = refusal(value, limits)
    if bad is not None:
        return bad
    try:
        match shape(value) if form == "auto" else form:
            case "bluesky":
                outcome = bluesky.read(value, langs)
            case "mastodon":
                outcome = mastodon.read(value, limits)
            case other:
                outcome = READERS[other](value)
        if not isinstance(outcome, Post):
            return outcome if form == "auto" else _second_look(value, form, outcome)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        return diagnosis(value, error)
    return _unmarked(outcome, limits.marks) if langs.keep(outcome.lang) else OTHER_LANGUAGE


def _unmarked(post: Post, most: int) -> Reading:
    """The post, unless one of its letters carries too many combining marks."""
    if post.text.isascii() or (marks := most_marks(post.text)) <= most:
        return post
    return rejected(Reason.MARKS, f"text: a letter has {marks} combining marks, more than {most}")


def _second_look(value: bytes, form: str, outcome: Reading) -> Reading:
    """The outcome for a message in a fixed form that has no post."""
    if not isinstance(outcome, Rejected) or outcome.reason not in LACKING:
        return outcome
    actual = shape(value)
    if actual == NOTICE and form in ("x", "x1"):
        return NO_POST
    if actual is None or actual in (form, "plain"):
        return outcome
    detail = f"value: is of the form {actual}, but posts.format is {form}"
    return rejected(Reason.UNKNOWN_FORM, detail)


def _unknown(value: bytes) -> Rejected:
    keys = (", ".join(OBJECT.decode(value)) or "none") if len(value) <= NAMED_KEYS_BYTES else "many"
    return rejected(Reason.UNKNOWN_FORM, f"value: has the keys of no known form: {keys}")
