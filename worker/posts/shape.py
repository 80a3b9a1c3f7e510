"""The form of a message, recognised by its top-level keys."""

import re

import msgspec
from msgspec import Raw

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
