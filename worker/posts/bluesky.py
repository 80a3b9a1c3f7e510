"""Posts of Bluesky: the events of its Jetstream, of both versions of the interface."""

import msgspec

from worker.posts.attachments import (
    NO_ATTACHMENTS,
    Attachments,
    Preview,
    decode_or_none,
    make_attachments,
)
from worker.posts.checks import Draft, make_post, rejection
from worker.posts.languages import ALL_LANGUAGES, Languages
from worker.posts.outcome import NO_POST, Reading, Reason

POST_COLLECTION = "app.bsky.feed.post"
COMMIT_MESSAGE = "network.bsky.jetstream.subscribeEvents#commit"
WRITE_OPERATIONS = ("create", "update", "c", "u")  # The first Jetstream used the short forms.


class PostRecord(msgspec.Struct, gc=False):
    text: str | None = None
    createdAt: str | None = None
    langs: list[str] | None = None
    embed: msgspec.Raw = msgspec.Raw()
    facets: msgspec.Raw = msgspec.Raw()


class Picture(msgspec.Struct, gc=False):
    alt: msgspec.Raw = msgspec.Raw()


class Embed(msgspec.Struct, gc=False):
    """Pictures, a film or a link card; beside a quoted post they are its `media`."""

    external: Preview | None = None
    images: list[Picture] | None = None
    alt: msgspec.Raw = msgspec.Raw()  # of a film
    media: "Embed | None" = None


class Feature(msgspec.Struct, gc=False):
    uri: msgspec.Raw = msgspec.Raw()  # of a link


class Facet(msgspec.Struct, gc=False):
    """What a part of the text means, such as a link."""

    features: list[Feature] | None = None


class CommitKeys(msgspec.Struct, gc=False):
    """A change in an author's repository."""

    operation: str | None = None
    type: str | None = None  # the first Jetstream's name of `operation`
    collection: str | None = None
    rkey: str | None = None


class Commit(CommitKeys, gc=False):
    record: msgspec.Raw = msgspec.Raw()


class SecondCommit(Commit, gc=False):
    """A commit of the second interface."""

    message: str | None = msgspec.field(name="$type", default=None)
    did: str | None = None


class Event(msgspec.Struct, gc=False):
    """An event of the first interface, which the second wraps."""

    did: str | None = None
    kind: str | None = None
    time_us: int | None = None
    commit: Commit | None = None
    frame: str | None = msgspec.field(name="$type", default=None)
    payload: msgspec.Raw = msgspec.Raw()


class PostCommit(CommitKeys, gc=False):
    """A commit of either interface whose record, if it has one, can be a post."""

    record: PostRecord | None = None
    message: str | None = msgspec.field(name="$type", default=None)
    did: str | None = None


class PostEvent(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An event of either interface, decoded at once. Without other keys it is of no other form."""

    did: str | None = None
    kind: str | None = None
    time_us: int | None = None
    commit: PostCommit | None = None
    frame: str | None = msgspec.field(name="$type", default=None)
    payload: PostCommit | None = None


USUAL_STARTS = (b'{"did":', b'{"$type":"message"')
POST_EVENT = msgspec.json.Decoder(PostEvent)
EVENT = msgspec.json.Decoder(Event)
SECOND_COMMIT: msgspec.json.Decoder[SecondCommit | None] = msgspec.json.Decoder(SecondCommit | None)
EMBED = msgspec.json.Decoder(Embed)
FACETS = msgspec.json.Decoder(list[Facet])
POST_RECORD: msgspec.json.Decoder[PostRecord | None] = msgspec.json.Decoder(PostRecord | None)


def read(value: bytes, langs: Languages = ALL_LANGUAGES) -> Reading:
    """Reads a post; of several languages the first accepted one counts."""
    event = EVENT.decode(value)
    if event.kind is not None or event.time_us is not None:
        return _read_commit(event.did, event.commit, langs)
    if event.frame == "message" and event.payload:
        second = SECOND_COMMIT.decode(event.payload)
        if second is None or second.message != COMMIT_MESSAGE:
            return NO_POST
        return _read_commit(second.did, second, langs)
    if event.frame == "error":
        return NO_POST
    return rejection(Reason.UNKNOWN_FORM, "kind: missing; this is not an event of the Jetstream")


def read_usual(value: bytes, langs: Languages) -> Reading | None:
    """The same as `read` for usual events, quickly; None for other values."""
    if not value.startswith(USUAL_STARTS):
        return None
    try:
        event = POST_EVENT.decode(value)
    except msgspec.MsgspecError:
        return None
    if event.did and event.kind == "commit":
        return _read_commit(event.did, event.commit, langs)
    if event.frame == "message" and event.payload and event.payload.message == COMMIT_MESSAGE:
        return _read_commit(event.payload.did, event.payload, langs)
    return None


def _read_commit(did: str | None, commit: Commit | PostCommit | None, langs: Languages) -> Reading:
    if commit is None or commit.collection != POST_COLLECTION:
        return NO_POST
    if (commit.operation or commit.type) not in WRITE_OPERATIONS:
        return NO_POST
    if not did or not commit.rkey:
        key = "commit.rkey" if did else "did"
        return rejection(Reason.NO_ID, f"{key}: missing or empty")
    record = commit.record
    if isinstance(record, msgspec.Raw):
        record = POST_RECORD.decode(record) if record else None
    if record is None:
        return rejection(Reason.NO_TEXT, "commit.record: missing")
    id = f"at://{did}/{POST_COLLECTION}/{commit.rkey}"
    lang, url = (
        langs.choose(record.langs or ()),
        f"https://bsky.app/profile/{did}/post/{commit.rkey}",
    )
    draft = Draft(id, record.text, did, record.createdAt, lang, url)
    return make_post("bluesky", draft, read_attachments(record))


def read_attachments(record: PostRecord) -> Attachments:
    if not (record.embed or record.facets):
        return NO_ATTACHMENTS
    embed = decode_or_none(record.embed, EMBED) or Embed()
    facets = decode_or_none(record.facets, FACETS) or []
    media = embed.media or embed
    alt = [*(picture.alt for picture in media.images or ()), media.alt]
    links = (feature.uri for facet in facets for feature in facet.features or ())
    return make_attachments(alt, media.external, links)
