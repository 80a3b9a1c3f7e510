"""What a Jetstream sends, of either interface: as the frame that it becomes, or what it tells.

v1 is `/subscribe` (docs/README.md §5.1), v2 `/xrpc/network.bsky.jetstream.subscribeEvents`
(lexicons/network/bsky/jetstream/subscribeEvents.json), both of github.com/bluesky-social/jetstream.
"""

from collections.abc import Collection
from datetime import datetime

import msgspec
from yarl import URL

from encoder.errors import InputError
from worker.posts.languages import Languages
from worker.sources.frame import Frame, Mark

POSTS = "app.bsky.feed.post"
V1, V2 = "/subscribe", "/xrpc/network.bsky.jetstream.subscribeEvents"
LEXICON = "network.bsky.jetstream.subscribeEvents#"
MICROSECONDS = 10**15  # from here on a cursor is a time, below it a number of the instance
SECOND = 10**6
LARGEST_CURSOR = 2**63 - 1
KEY_BYTES = 2**12  # an address has a tenth of it
REWIND_S = 10.0  # on another host, whose clock is another


class Langs(msgspec.Struct):
    """The languages that the author says a record has."""

    langs: list[str] | None = None


class CommitSaid(msgspec.Struct, gc=False):
    """A commit as v1 has it, or what v2 says of one."""

    collection: str | None = None
    rkey: str | None = None
    record: msgspec.Raw = msgspec.Raw()


class FirstEvent(msgspec.Struct, gc=False):
    """An event of v1."""

    did: str | None = None
    time_us: int | None = None
    commit: CommitSaid | None = None


class Payload(CommitSaid, gc=False):
    """A message of v2."""

    type: str = msgspec.field(name="$type", default="")
    did: str | None = None
    seq: int | None = None
    time: str | None = None
    name: str = ""
    message: str = ""


class JetstreamFrame(msgspec.Struct, gc=False):
    """A frame of v2: a message, or an error that ends the connection."""

    type: str = msgspec.field(name="$type", default="")
    payload: Payload | None = None
    error: str = ""
    message: str = ""


FIRST = msgspec.json.Decoder(FirstEvent)
SECOND_FORM = msgspec.json.Decoder(JetstreamFrame)
LANGS = msgspec.json.Decoder(Langs)


class JetstreamSaid(msgspec.Struct, frozen=True):
    """Something besides events: a notice, or the error that a connection ends with."""

    name: str
    said: str
    ends: bool


class Jetstream:
    """How one interface is asked, and how what it sends is read."""

    def __init__(self, url: URL, collections: Collection[str], langs: Collection[str]) -> None:
        """`url` with its path; `langs` none for all."""
        path = url.path.rstrip("/")
        if not path.endswith((V1, V2)):
            raise InputError(
                f"--url: the path {url.path!r} is none of a Jetstream; give {V1}, or {V2}"
            )
        self.is_v2 = path.endswith(V2)
        self._key = "collections" if self.is_v2 else "wantedCollections"
        self.url, self._langs = self._asked(url, collections), Languages.of(",".join(langs))
        self.place = f"{url.host}:{url.port}{path}"
        self.is_busy = self._key not in url.query and POSTS in collections  # some come each second

    def _asked(self, url: URL, collections: Collection[str]) -> URL:
        """The address with what is wanted of it, but for what it already says."""
        wanted = {self._key: list(collections)}
        if self.is_v2 and "collections" not in url.query:
            wanted["kinds"] = ["commit"]
        wanted = {key: values for key, values in wanted.items() if key not in url.query}
        return url.extend_query([(key, each) for key, values in wanted.items() for each in values])

    def since(self, mark: Mark | None) -> int | None:
        """The cursor to go on from; None where it can only be what is new."""
        if mark is None:
            return None
        if mark.place == self.place:
            if not isinstance(mark.cursor, int) or not 0 <= mark.cursor <= LARGEST_CURSOR:
                raise InputError(f"--state: the cursor {mark.cursor!r} is none of a Jetstream; "
                                 "delete the file to begin with what is new")  # fmt: skip
            return mark.cursor
        return time_cursor(mark.at)

    def read(self, value: bytes) -> Frame | JetstreamSaid:
        """The frame that a message becomes; what nobody can read goes on as it is."""
        try:
            return self._second(value) if self.is_v2 else self._first(value)
        except (msgspec.MsgspecError, ValueError, OverflowError):
            return Frame(value)

    def _first(self, value: bytes) -> Frame:
        event = FIRST.decode(value)
        change, at = event.commit, None if event.time_us is None else event.time_us / SECOND
        return self._frame(value, event.did, change, event.time_us, at)

    def _second(self, value: bytes) -> Frame | JetstreamSaid:
        frame = SECOND_FORM.decode(value)
        if frame.type == "error":
            return JetstreamSaid(frame.error, frame.message, True)
        said = frame.payload
        if said is None:
            return Frame(value)
        if said.type == f"{LEXICON}info":
            return JetstreamSaid(said.name, said.message, False)
        at = None if said.time is None else datetime.fromisoformat(said.time).timestamp()
        return self._frame(value, said.did, said, said.seq, at)

    def _frame(
        self, value: bytes, did: str | None, change: CommitSaid | None, cursor: int | None,
        at: float | None,
    ) -> Frame:  # fmt: skip
        """A frame whose key is the record's address, else its author; without value if unwanted."""
        if cursor is not None and not 0 <= cursor <= LARGEST_CURSOR:
            cursor = None
        key = did
        if did and change is not None and change.collection and change.rkey:
            key = f"at://{did}/{change.collection}/{change.rkey}"
            if self._langs.wanted and change.record and not self._wanted(change.record):
                return Frame(b"", None, cursor, at)
        named = key.encode() if key else None
        return Frame(value, named if named and len(named) <= KEY_BYTES else None, cursor, at)

    def _wanted(self, record: msgspec.Raw) -> bool:
        """Whether a record names one of the languages, or none."""
        langs = LANGS.decode(record).langs
        return not langs or any(map(self._langs.keep, langs))


def time_cursor(at: float | None, later_s: float = -REWIND_S) -> int | None:
    """A cursor for any host: a little before this time; None where that is no time of theirs."""
    if at is None or not MICROSECONDS <= at * SECOND <= LARGEST_CURSOR:
        return None
    return round((at + later_s) * SECOND)
