"""Bytes to posts: a message of any supported form becomes a post, rejected, or passed over."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from encoder.support.letters import marks_beyond
from worker.config.limits import DEFAULT_LIMITS, Limits
from worker.posts import bluesky, mastodon, plain, x, x1
from worker.posts.checks import diagnose, refusal, rejection
from worker.posts.compare import compared_text
from worker.posts.languages import ALL_LANGUAGES, Languages
from worker.posts.outcome import (
    NO_POST,
    OTHER_LANGUAGE,
    PassedOver,
    Post,
    Reading,
    Reason,
    Rejected,
)
from worker.posts.shape import NOTICE, recognise_form

__all__ = [
    "PassedOver", "Post", "PostRules", "Reading", "Reason", "Rejected", "read_post", "read_posts",
]  # fmt: skip

READERS: dict[str | None, Callable[[bytes], Reading]] = {
    "x": x.read,
    "x1": x1.read,
    "plain": plain.read,
    NOTICE: lambda _: NO_POST,
    None: lambda value: _reject_unknown(value),
}
PLAIN_FORMS = ("auto", "plain")
BLUESKY_FORMS = ("auto", "bluesky")
NAMED_KEYS_BYTES = 2**16  # An error names the keys of a value up to this size.
ANY_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
MISSING_REASONS = (Reason.NO_ID, Reason.NO_TEXT)


class PostRules(NamedTuple):
    """How messages are read as posts."""

    form: str = "auto"
    limits: Limits = DEFAULT_LIMITS
    langs: Languages = ALL_LANGUAGES


DEFAULT_RULES = PostRules()


def read_post(
    value: bytes | None, form: str = "auto", limits: Limits = DEFAULT_LIMITS,
    langs: Languages = ALL_LANGUAGES,
) -> Reading:  # fmt: skip
    """Never raises, whatever the bytes."""
    if not value:
        kind = "null" if value is None else "empty"
        return rejection(Reason.EMPTY_VALUE, f"value: {kind}")
    if len(value) > limits.post_bytes:
        detail = f"value: {len(value)} bytes, more than {limits.post_bytes}"
        return rejection(Reason.POST_BYTES, detail)
    if form in PLAIN_FORMS and (posts := plain.read_plain_lines([value], limits.post_bytes)):
        return _check_post(posts[0], limits, langs)
    outcome = refusal(value, limits) or _read_form(value, form, limits, langs)
    return _check_post(outcome, limits, langs)


def read_posts(
    values: Sequence[bytes | None], form: str, limits: Limits, langs: Languages
) -> list[Reading]:
    """`read_post` of each value; plain posts are decoded together."""
    posts = plain.read_plain_lines(values, limits.post_bytes) if form in PLAIN_FORMS else None
    if posts is None:
        return [read_post(value, form, limits, langs) for value in values]
    return [_check_post(post, limits, langs) for post in posts]


def _check_post(outcome: Reading, limits: Limits, langs: Languages) -> Reading:
    """Passes over other languages, and rejects a letter with too many marks."""
    if not isinstance(outcome, Post):
        return outcome
    if langs.codes and not langs.accepts(outcome.lang):
        return OTHER_LANGUAGE
    compared = [("text", outcome.text)]
    if outcome.alt or outcome.card:
        compared.append(("alt or card", compared_text(outcome, ("alt", "card"))))
    for name, text in compared:
        if not text.isascii() and (marks := marks_beyond(text, limits.marks)):
            detail = f"{name}: a letter has {marks} combining marks, more than {limits.marks}"
            return rejection(Reason.MARKS, detail)
    return outcome


def _read_form(value: bytes, form: str, limits: Limits, langs: Languages) -> Reading:
    try:
        if form in BLUESKY_FORMS and (usual := bluesky.read_usual(value, langs)):
            return usual
        match recognise_form(value) if form == "auto" else form:
            case "bluesky":
                outcome = bluesky.read(value, langs)
            case "mastodon":
                outcome = mastodon.read(value, limits)
            case other:
                outcome = READERS[other](value)
        if isinstance(outcome, Post) or form == "auto":
            return outcome
        return _check_form(value, form, outcome)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        return diagnose(value, error)


def _check_form(value: bytes, form: str, outcome: Reading) -> Reading:
    """The outcome for a message without a post where posts.format names the form."""
    if not isinstance(outcome, Rejected) or outcome.reason not in MISSING_REASONS:
        return outcome
    actual = recognise_form(value)
    if actual == NOTICE and form in ("x", "x1"):
        return NO_POST
    if actual is None or actual in (form, "plain"):
        return outcome
    detail = f"value: is of the form {actual}, but posts.format is {form}"
    return rejection(Reason.UNKNOWN_FORM, detail)


def _reject_unknown(value: bytes) -> Rejected:
    keys = (
        (", ".join(ANY_OBJECT.decode(value)) or "none")
        if len(value) <= NAMED_KEYS_BYTES
        else "many"
    )
    return rejection(Reason.UNKNOWN_FORM, f"value: has the keys of no known form: {keys}")
