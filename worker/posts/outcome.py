"""The outcomes of reading a message: a post, rejected, or passed over."""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from worker.posts.attachments import Card

PLATFORMS = ("x", "bluesky", "mastodon", "plain")
PostId = tuple[str, str]  # the platform, and the id that it gave
# A message's header with the instance that gave the post's id: two of Mastodon's may give the same.
INSTANCE_HEADER = "instance"
MAX_INSTANCE_BYTES = 255


class Reason(StrEnum):
    """Why a message became a dead letter; the list is closed."""

    BAD_JSON = "bad_json"  # cut off, or not JSON at all
    WRONG_TYPE = "wrong_type"  # no object, or a key that is used has a value of another type
    TOO_DEEP = "too_deep"  # objects and arrays nested beyond the limit, anywhere in it
    INVALID_UTF8 = "invalid_utf8"  # a byte anywhere in the value that is not UTF-8
    LONE_SURROGATE = "lone_surrogate"  # half of an escaped pair: \ud83d alone
    NO_ID = "no_id"  # missing, null or empty
    NO_TEXT = "no_text"  # missing, null or no string
    EMPTY_VALUE = "empty_value"  # null, or no bytes
    UNKNOWN_FORM = "unknown_form"  # JSON, but no form that is known or configured
    OUT_OF_MEMORY = "out_of_memory"  # a post that cannot be processed even alone
    NOT_FINITE = "not_finite"  # its embedding is not a number
    FAILED = "failed"  # an unexpected error that other posts do not raise
    RECORD_TOO_LARGE = "record_too_large"  # the broker takes no record of that size
    POST_BYTES = "limits.post_bytes"  # more bytes than a post may have; kept without its value
    LIST_ITEMS = "limits.list_items"  # a list with more items than one may have
    MARKS = "limits.marks"  # a letter with more combining marks than one may have
    BAD_BATCH = "bad_batch"  # in the place of a record batch that cannot be read


class Post(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A post of any platform; fields that the platform does not give are None."""

    id: str
    platform: str
    text: str
    author: str | None = None
    created_at: str | None = None
    lang: str | None = None
    url: str | None = None
    alt: tuple[str, ...] = ()  # what pictures show, in words
    card: Card | None = None
    links: tuple[str, ...] = ()

    @property
    def post_id(self) -> PostId:
        return self.platform, self.id


class Rejected(msgspec.Struct, frozen=True):
    """A message that becomes a dead letter."""

    reason: Reason
    detail: str


class PassedOver(msgspec.Struct, frozen=True):
    """A valid message without a post, without words, or in no accepted language."""

    why: str  # "no_post", "no_words" or "other_language"


Reading = Post | Rejected | PassedOver

NO_POST = PassedOver("no_post")
NO_WORDS = PassedOver("no_words")
OTHER_LANGUAGE = PassedOver("other_language")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Takes the place of an unreadable batch, at the offset of its last record."""

    topic: str
    partition: int
    first: int
    offset: int
    detail: str
    timestamp: int = -1  # unknown
    key: None = None
    value: None = None
    headers: tuple[()] = ()

    @property
    def count(self) -> int:
        return self.offset - self.first + 1

    @property
    def offsets(self) -> str:
        return f"{self.first}-{self.offset}"

    def __str__(self) -> str:
        return (
            f"offsets {self.offsets} of {self.topic}, partition {self.partition}, are passed over "
            f"({Reason.BAD_BATCH}): {self.detail}"
        )
