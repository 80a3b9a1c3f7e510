"""Messages that are not posts, with their reasons, and unusual texts that are posts."""

MAX_BYTES = 200_000  # limits.post_bytes in the stories

POISON: list[tuple[str, bytes | None]] = [
    ("bad_json", b'{"id": "1", "text": "cut'),
    ("bad_json", b"\x00\x01\x02"),
    ("bad_json", b"the storm in the city"),
    ("wrong_type", b'{"id": {"not": "a string"}, "text": "storm"}'),
    ("wrong_type", b'["not", "an", "object"]'),
    ("too_deep", b"[" * 100_000 + b"]" * 100_000),
    ("invalid_utf8", b'{"id": "1", "text": "\xff\xfe"}'),
    ("lone_surrogate", b'{"id": "1", "text": "\\ud800 storm"}'),
    ("no_text", b'{"id": "1"}'),
    ("no_text", b'{"id": "1", "text": ["a", "list"]}'),
    ("empty_value", None),
    ("empty_value", b""),
    ("limits.post_bytes", b'{"id": "1", "text": "' + b"storm " * 40_000 + b'"}'),
    ("unknown_form", b'{"neither": "this", "nor": "that"}'),
]

ODD_TEXTS = [
    "",
    " \n\t ",
    "https://example.org/a https://example.org/b",
    "🌪️🌊🔥",
    "عاصفة في المدينة",
    "\u200b\u200d\ufeff",
    "storm\x00flood",
    "flood " * 20_000,
    "\u202estorm\u202c",
    "STORM " + "a" * 50_000,
]

BAD_SEEDS: list[tuple[str, bytes, bytes]] = [
    ("value:", b"no-json", b"\x00\xffgarbage"),
    ("value:", b"a-list", b"[1, 2, 3]"),
    ("value:", b"deep", b"[" * 100_000),
    ("text:", b"no-text", b'{"title": "only this"}'),
    ("threshold:", b"nan", b'{"text": "storm flood", "threshold": NaN}'),
    ("threshold:", b"two", b'{"text": "storm flood", "threshold": 2}'),
    ("threshold:", b"word", b'{"text": "storm flood", "threshold": "0.5"}'),
    ("expires_at:", b"never", b'{"text": "storm flood", "expires_at": "never"}'),
    ("limits.article_bytes:", b"oversized", b'{"text": "' + b"storm " * 100_000 + b'"}'),
]
