"""Messages that a stream brings besides posts: some that are no use, and some harmless."""

from worker.posts.read import Reason

POISON: tuple[tuple[Reason, bytes | None], ...] = (
    (Reason.BAD_JSON, b'{"id": "poison-1", "text": "cut off in the mid'),
    (Reason.BAD_JSON, b"<html><body>502 Bad Gateway</body></html>"),
    (Reason.WRONG_TYPE, b'["a list", "is no post"]'),
    (Reason.TOO_DEEP, b'{"id": "poison-2", "text": ' + b"[" * 500 + b"]" * 500 + b"}"),
    (Reason.INVALID_UTF8, b'{"id": "poison-3", "text": "caf\xe9 on fire"}'),
    (Reason.LONE_SURROGATE, b'{"id": "poison-4", "text": "half of an emoji: \\ud83d"}'),
    (Reason.NO_ID, b'{"text": "nobody knows which post this is"}'),
    (Reason.NO_ID, b'{"id": "", "text": "nor this"}'),
    (Reason.NO_TEXT, b'{"id": "poison-5", "text": null}'),
    (Reason.NO_TEXT, b'{"id": "poison-6", "text": 404}'),
    (Reason.EMPTY_VALUE, None),
    (Reason.EMPTY_VALUE, b""),
    (Reason.UNKNOWN_FORM, b'{"temperature": 21.5, "room": "kitchen"}'),
)

LIKE = (
    b'{"did": "did:plc:newsiftdemo", "kind": "commit", "commit": {"operation": "create", '
    b'"collection": "app.bsky.feed.like", "rkey": "3like", "record": {}}}'
)
DELETION = (
    b'{"did": "did:plc:newsiftdemo", "kind": "commit", "commit": {"operation": "delete", '
    b'"collection": "app.bsky.feed.post", "rkey": "3gone"}}'
)
HARMLESS: tuple[bytes, ...] = (
    b'{"delete": {"status": {"id": 1, "id_str": "1", "user_id": 7}}}',
    b'{"did": "did:plc:newsiftdemo", "kind": "identity", "identity": {"handle": "a.example"}}',
    LIKE,
    DELETION,
    b'{"id": "picture-1", "text": ""}',
)
