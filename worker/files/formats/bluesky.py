"""Posts of Bluesky's API as the Jetstream has them: app.bsky.feed.searchPosts and getPosts."""

import msgspec

Raw = msgspec.Raw
SCHEME = "at://"


class ViewedAuthor(msgspec.Struct):
    """The author of a post."""

    did: str | None = None


class View(msgspec.Struct):
    """A post as the API shows it (app.bsky.feed.defs#postView)."""

    uri: str
    record: Raw
    author: ViewedAuthor | None = None


VIEW = msgspec.json.Decoder(View)


def event_of(view: bytes) -> bytes:
    """The event by which the Jetstream has told of a post."""
    found = VIEW.decode(view)
    did, _, path = found.uri.removeprefix(SCHEME).partition("/")
    collection, _, key = path.partition("/")
    if found.author is not None and found.author.did:
        did = found.author.did  # where the address has a handle
    commit = {"operation": "create", "collection": collection, "rkey": key, "record": found.record}
    return msgspec.json.encode({"did": did, "kind": "commit", "commit": commit})
