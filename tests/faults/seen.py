"""Records of the worker's topics, as the checker wants them."""

import json
from typing import Any

from tests.faults.checker import LetterSeen, MatchSeen, Named


def match_seen(record: Any) -> MatchSeen:
    row = json.loads(record.value)
    place = (row["source"]["partition"], row["source"]["offset"])
    named = tuple(Named(m["match_id"], m["score"], m["threshold"]) for m in row["matches"])
    for hint in ("processed_at", "group", "new"):  # of when, and of what came before
        row.pop(hint, None)
    return MatchSeen(place, named, row["matched"], json.dumps(row, sort_keys=True))


def letter_seen(record: Any) -> LetterSeen:
    headers = {name: value.decode() for name, value in record.headers}
    _, partition, offset = headers["source"].rsplit("-", 2)
    return LetterSeen((int(partition), int(offset)), headers["reason"], record.value)
