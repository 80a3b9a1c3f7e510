"""Which column of a table, or key of an object, holds what of a post."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from encoder.errors import InputError
from worker.files.messages import FormatError, plain_post
from worker.files.oddities import Oddities

TEXTS = ("text", "fulltext", "body", "content", "message", "tweet", "tweettext", "posttext")
IDS = ("id", "idstr", "tweetid", "twitterid", "statusid", "postid", "messageid")
TIMES = ("unixtimestamp", "createdat", "createdutc", "timestamputc", "timestamp", "datetime",
         "date", "time", "created", "published")  # fmt: skip
AUTHORS = ("authorusername", "username", "userscreenname", "screenname", "author", "user")
LANGS = ("lang", "language", "languageguess", "languages")
URLS = ("url", "link", "permalink", "tweeturl", "posturl")
OF_4CAT = {"id", "thread_id", "body", "timestamp"}  # its times are UTC and do not say so
SIGN = re.compile(r"[\W_]+")
MOST_TOLD = 20  # columns


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What a user says of his files."""

    format: str = "auto"
    text: str | None = None
    id: str | None = None
    time: str | None = None
    timezone: str | None = None  # of times that name no offset

    def __post_init__(self) -> None:
        _ = self.zone  # refused now
        if self.format == "lines" and self.names_columns:
            raise InputError("--format lines has no columns; leave their names out, or give csv")

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone of times that name no offset."""
        try:
            return ZoneInfo(self.timezone) if self.timezone is not None else None
        except (KeyError, ValueError, OSError):
            told = f"--timezone {self.timezone!r}: there is no such time zone"
            raise InputError(f"{told}; give one such as Europe/Berlin or UTC") from None

    @property
    def names_columns(self) -> bool:
        """Whether he says where something stands."""
        return not (self.text is self.id is self.time is None)


@dataclass(frozen=True, slots=True)
class Picked:
    """The columns that a post is read from."""

    text: str
    id: str | None
    time: str | None
    author: str | None
    lang: str | None
    url: str | None
    is_utc: bool

    @classmethod
    def among(cls, header: Sequence[str], wanted: FileOptions, place: str = "") -> "Picked":
        """The columns by the names that are usual, or that are wanted."""
        by_sign = {SIGN.sub("", name).lower(): name for name in reversed(header)}

        def usual(names: Sequence[str]) -> str | None:
            return next((by_sign[name] for name in names if name in by_sign), None)

        def named(option: str, name: str | None, names: Sequence[str]) -> str | None:
            if name is not None and name not in header:
                told = f"has no column {name!r} ({listed(header)}); mend {option}"
                raise FormatError(told, place)
            return name if name is not None else usual(names)

        text = named("--text-column", wanted.text, TEXTS)
        if text is None:
            told = f"has no column of texts ({listed(header)}); name it with --text-column, "
            told += "or what this is with --format"
            raise FormatError(told, place)
        id, time = (
            named("--id-column", wanted.id, IDS),
            named("--time-column", wanted.time, TIMES),
        )
        utc = set(header) >= OF_4CAT or SIGN.sub("", time or "").lower().endswith("utc")
        return cls(text, id, time, usual(AUTHORS), usual(LANGS), usual(URLS), utc)

    def post(self, row: Mapping[str, object], oddities: Oddities) -> bytes:
        """A row as a plain post."""
        return plain_post(
            str(row[self.text] or ""), self._id(row, oddities),
            created_at=self._time(row, oddities),
            author=_told(row, self.author), lang=_told(row, self.lang), url=_told(row, self.url),
        )  # fmt: skip

    def told(self) -> str:
        """Which columns these are, for whoever wants to see that they are the right ones."""
        parts = {"text": self.text, "id": self.id, "time": self.time}
        known = ", ".join(f"{part} from {name!r}" for part, name in parts.items() if name)
        return known if self.id else f"{known}, ids from the texts"

    def _id(self, row: Mapping[str, object], oddities: Oddities) -> str | None:
        found = _told(row, self.id)
        return None if found is None or oddities.is_rounded(found, self.id or "") else found

    def _time(self, row: Mapping[str, object], oddities: Oddities) -> str | None:
        found = None if self.time is None else row.get(self.time)
        found = found.strip() if isinstance(found, str) else found
        if found in (None, ""):
            return None
        return oddities.time(found, self.time or "", self.is_utc)


def listed(header: Sequence[str]) -> str:
    """The columns of a table, as many as fit a line."""
    more = f" and {len(header) - MOST_TOLD:,} more" if len(header) > MOST_TOLD else ""
    return ", ".join(repr(name[:40]) for name in header[:MOST_TOLD]) + more


def _told(row: Mapping[str, object], name: str | None) -> str | None:
    """What a column that need not be there says."""
    found = None if name is None else row.get(name)
    return str(found).strip() or None if isinstance(found, str | int | float) else None
