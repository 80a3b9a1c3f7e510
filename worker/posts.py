"""Bytes to posts: a message of any supported form is a post, rejected, or passed over."""

from collections.abc import Callable

import msgspec

from worker.config import DEFAULT_LIMITS, Limits
from worker.forms import bluesky, mastodon, plain, x, x1
from worker.forms.checks import diagnosis, refusal, rejected
from worker.forms.outcome import NO_POST, Outcome, PassedOver, Post, Reason, Rejected
from worker.forms.shape import NOTICE, shape

__all__ = ["FORMS", "Outcome", "PassedOver", "Post", "Reason", "Rejected", "read_post"]

FORMS = ("auto", "x", "x1", "bluesky", "mastodon", "plain")
READERS: dict[str | None, Callable[[bytes], Outcome]] = {
    "x": x.read,
    "x1": x1.read,
    "bluesky": bluesky.read,
    "mastodon": mastodon.read,
    "plain": plain.read,
    NOTICE: lambda _: NO_POST,
    None: lambda value: _unknown(value),
}
OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
LACKING = (Reason.NO_ID, Reason.NO_TEXT)


def read_post(value: bytes | None, form: str = "auto", limits: Limits = DEFAULT_LIMITS) -> Outcome:
    """What a message's value holds; never raises, whatever the bytes."""
    if not value:
        found = "null" if value is None else "empty"
        return rejected(Reason.EMPTY_VALUE, f"value: {found}")
    if len(value) > limits.post_bytes:
        told = f"value: {len(value)} bytes, more than {limits.post_bytes}"
        return rejected(Reason.POST_BYTES, told)
    bad = refusal(value)
    if bad is not None:
        return bad
    try:
        if form == "auto":
            return READERS[shape(value)](value)
        outcome = READERS[form](value)
        return outcome if isinstance(outcome, Post) else _second_look(value, form, outcome)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        return diagnosis(value, error)


def _second_look(value: bytes, form: str, outcome: Outcome) -> Outcome:
    """What came of a message in the form that was fixed, where that is no post."""
    if not isinstance(outcome, Rejected) or outcome.reason not in LACKING:
        return outcome
    seen = shape(value)
    if seen == NOTICE and form in ("x", "x1"):
        return NO_POST
    if seen is None or seen in (form, "plain"):
        return outcome
    told = f"value: is of the form {seen}, but posts.format is {form}"
    return rejected(Reason.UNKNOWN_FORM, told)


def _unknown(value: bytes) -> Rejected:
    keys = ", ".join(OBJECT.decode(value)) or "none"
    return rejected(Reason.UNKNOWN_FORM, f"value: has the keys of no known form: {keys}")
