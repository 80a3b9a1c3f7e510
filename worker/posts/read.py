"""Bytes to posts: a message of any supported form becomes a post, rejected, or passed over.

Its top-level keys tell the form. Those of platforms are read in modules of their own; plain posts,
which are {"id", "text"} and optional keys, here.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw

from encoder.support.letters import marks_beyond
from worker.config.limits import DEFAULT_LIMITS, Limits
from worker.posts import bluesky, mastodon, x, x1
from worker.posts.attachments import attachments_of, decode_or_none
from worker.posts.checks import Draft, diagnose, make_post, refusal, rejection
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

__all__ = [
    "PassedOver", "Post", "PostRules", "Reading", "Reason", "Rejected", "read_post", "read_posts",
]  # fmt: skip

NO_VALUE = Raw()
TWEET_ID = re.compile(rb'"?[0-9]{15,19}"?')


class Keys(msgspec.Struct, gc=False):
    """The keys that tell the forms apart; their values are not decoded."""

    type: Raw = msgspec.field(name="$type", default=NO_VALUE)
    id: Raw = NO_VALUE
    text: Raw = NO_VALUE
    did: Raw = NO_VALUE
    kind: Raw = NO_VALUE
    time_us: Raw = NO_VALUE
    event: Raw = NO_VALUE
    stream: Raw = NO_VALUE
    payload: Raw = NO_VALUE
    data: Raw = NO_VALUE
    content: Raw = NO_VALUE
    account: Raw = NO_VALUE
    uri: Raw = NO_VALUE
    id_str: Raw = NO_VALUE
    full_text: Raw = NO_VALUE
    extended_tweet: Raw = NO_VALUE
    retweeted_status: Raw = NO_VALUE
    user: Raw = NO_VALUE
    edit_history_tweet_ids: Raw = NO_VALUE
    author_id: Raw = NO_VALUE
    note_tweet: Raw = NO_VALUE
    conversation_id: Raw = NO_VALUE
    referenced_tweets: Raw = NO_VALUE
    public_metrics: Raw = NO_VALUE
    delete: Raw = NO_VALUE
    scrub_geo: Raw = NO_VALUE
    limit: Raw = NO_VALUE
    status_withheld: Raw = NO_VALUE
    user_withheld: Raw = NO_VALUE
    disconnect: Raw = NO_VALUE
    warning: Raw = NO_VALUE
    error: Raw = NO_VALUE
    errors: Raw = NO_VALUE

    def has_x1_key(self) -> bool:
        """Whether a key that only X's API v1.1 has is present."""
        return bool(
            self.id_str or self.full_text or self.extended_tweet or self.retweeted_status
            or (self.user and b'"screen_name"' in bytes(self.user))
        )  # fmt: skip

    def has_x_key(self) -> bool:
        """Whether a key of X's API v2 alone is present; older tweets had only `author_id`.

        Other forms may have an `author_id` too, but hardly an id as long as a tweet's.
        """
        return bool(
            self.edit_history_tweet_ids or self.note_tweet or self.conversation_id
            or self.referenced_tweets or self.public_metrics
            or (self.author_id and TWEET_ID.fullmatch(bytes(self.id)))
        )  # fmt: skip

    def is_second_jetstream(self) -> bool:
        """Whether it is a message or error frame of the Jetstream's second interface."""
        kind = bytes(self.type)
        return bool((kind == b'"message"' and self.payload) or (kind == b'"error"' and self.error))

    def is_notice(self) -> bool:
        """Whether it is a message of X's streams that is not a post, such as a deletion."""
        values = (
            self.delete, self.scrub_geo, self.limit, self.status_withheld, self.user_withheld,
            self.disconnect, self.warning,
        )  # fmt: skip
        return any(bytes(value).startswith(b"{") for value in values) or (
            bytes(self.errors).startswith(b"[")
        )


KEYS = msgspec.json.Decoder(Keys)
NOTICE = "notice"


def recognise_form(value: bytes) -> str | None:
    """The form of a message; NOTICE for other messages of X's streams; None if unknown.

    Keys decide, and values only rarely, so that an odd value under an unused key cannot reject a
    plain post.
    """
    keys = KEYS.decode(value)
    if keys.text:
        return _with_text(keys)
    if keys.did and (keys.kind or keys.time_us):
        return "bluesky"
    if keys.type and keys.is_second_jetstream():
        return "bluesky"
    if keys.event and (keys.payload or keys.stream):
        return "mastodon"
    if keys.content and (keys.account or keys.uri):
        return "mastodon"
    return _without_text(keys)


def _with_text(keys: Keys) -> str:
    if keys.has_x1_key():
        return "x1"
    if keys.has_x_key():
        return "x"
    if keys.content and keys.account and keys.uri:
        return "mastodon"  # a status shows its author the source too, as `text`
    return "plain"


def _without_text(keys: Keys) -> str | None:
    if keys.has_x1_key():
        return "x1"
    if keys.id:
        return "x" if keys.has_x_key() else "plain"
    if keys.data:
        return "x"
    return NOTICE if keys.is_notice() else None


class OnlyPlain(Draft, forbid_unknown_fields=True, gc=False):
    """A value without other keys is of no other form, and nests nothing."""


class WithAttachments(Draft, gc=False):
    """Attachments stand under the keys that a match record has."""

    alt: Raw = Raw()
    card: Raw = Raw()
    links: Raw = Raw()


decode_plain = msgspec.json.Decoder(WithAttachments).decode
ANY_OBJECT = msgspec.json.Decoder(dict[str, Raw])
ANY_LIST = msgspec.json.Decoder(list[Raw])
decode_lines = msgspec.json.Decoder(OnlyPlain).decode_lines
USUAL_STARTS = (b'{"id"', b'{"text"')  # of a plain post; most other forms start otherwise


def read_plain(value: bytes) -> Reading:
    draft = decode_plain(value)
    values = {
        "alt": decode_or_none(draft.alt, ANY_LIST),
        "card": decode_or_none(draft.card, ANY_OBJECT),
        "links": decode_or_none(draft.links, ANY_LIST),
    }
    return make_post("plain", draft, attachments_of(values))


def read_plain_lines(values: Sequence[bytes | None], most: int) -> list[Reading] | None:
    """Read plain posts quickly, as the lines of one text.

    None if a value has other keys or a line break, or if all have more than `most` bytes.
    """
    if not values or not (values[0] or b"").startswith(USUAL_STARTS):
        return None  # an exception costs as much as the decoding
    try:
        lines = b"\n".join(values)  # type: ignore[arg-type]  # None raises
        if len(lines) > most or lines.count(b"\n") >= len(values):
            return None
        posts = decode_lines(lines)  # an object ends its line: as many as lines is one on each
        if len(posts) != len(values):
            return None
        return [make_post("plain", post) for post in posts]
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None


READERS: dict[str | None, Callable[[bytes], Reading]] = {
    "x": x.read,
    "x1": x1.read,
    "plain": read_plain,
    NOTICE: lambda _: NO_POST,
    None: lambda value: _reject_unknown(value),
}
PLAIN_FORMS = ("auto", "plain")
BLUESKY_FORMS = ("auto", "bluesky")
NAMED_KEYS_BYTES = 2**16  # An error names the keys of a value up to this size.
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
    if form in PLAIN_FORMS and (posts := read_plain_lines([value], limits.post_bytes)):
        return _check_post(posts[0], limits, langs)
    outcome = refusal(value, limits) or _read_form(value, form, limits, langs)
    return _check_post(outcome, limits, langs)


def read_posts(
    values: Sequence[bytes | None], form: str, limits: Limits, langs: Languages
) -> list[Reading]:
    """`read_post` of each value; plain posts are decoded together."""
    posts = read_plain_lines(values, limits.post_bytes) if form in PLAIN_FORMS else None
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
