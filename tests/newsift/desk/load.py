"""The desk with many matches: how long each page's first answer takes, and the memory it holds.

python -m tests.newsift.desk.load [--matches 100000] [--events 10]
"""

import argparse
import random
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.broker.clients import until
from tests.broker.server import opened
from tests.faults.process import resident
from tests.newsift.desk.desk_topics import DeskProcess, Place
from tests.newsift.desk.match_records import record

MIB = 2**20
SENT_AT_ONCE = 10_000
DEADLINE_S = 600.0
HOURS = 20  # the time over which the matches are spread
WORDS = ["ferry", "burns", "off", "port", "maren", "boats", "bring", "people", "ashore", "smoke"]
ARTICLE = " ".join(WORDS * 5)
# Of each page: what it asks first, of an event unless it is of all
PAGES: dict[str, dict[str, str]] = {
    "health": {}, "events": {}, "event": {}, "matches": {}, "judge/question": {"by": "ada"},
    "judge/judges": {}, "judge/promise-test": {}, "learned": {}, "scores": {}, "scores/near": {},
    "counts": {}, "seeds": {},
}  # fmt: skip
OF_ALL = ("health", "events", "seeds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=10)
    options = parser.parse_args()
    events = [f"event-{n}" for n in range(options.events)]
    with (
        tempfile.TemporaryDirectory() as scratch,
        opened("embedded", Path(scratch)) as server,
        closing(Place(server, Path(scratch))) as place,
    ):
        place.send("seeds", *((event, {"text": f"{event} {ARTICLE}"}) for event in events))
        desk = place.desk()
        until(lambda: not desk.call("events")["model"], DEADLINE_S)
        print(f"the desk without a match: {resident(desk.process.pid) / MIB:.0f} MiB")  # noqa: T201
        send_matches(place, events, options.matches)
        until(lambda: posts_shown(desk) >= options.matches, DEADLINE_S)
        print(f"with {options.matches:,} matches: {resident(desk.process.pid) / MIB:.0f} MiB")  # noqa: T201
        print(f"a new match is shown after {new_match_s(place, desk, events[0]) * 1000:.0f} ms")  # noqa: T201
        for path, values in PAGES.items():
            first, again = (answer_ms(desk, path, values, events[0]) for _ in range(2))
            print(f"{path:20} {first:6.0f} ms, again {again:6.0f} ms")  # noqa: T201
        print(f"at the end: {resident(desk.process.pid) / MIB:.0f} MiB")  # noqa: T201


def send_matches(place: Place, events: list[str], count: int) -> None:
    dice, now = random.Random(0), int(time.time() * 1000)
    for begin in range(0, count, SENT_AT_ONCE):
        numbers = range(begin, min(begin + SENT_AT_ONCE, count))
        rows = [match(dice, number, now, events) for number in numbers]
        place.send("matches", *((row["post"]["id"], row) for row in rows))


def match(dice: random.Random, number: int, now: int, events: list[str]) -> dict[str, Any]:
    words = dice.choices(WORDS, k=24)
    why = [[word, dice.random() / 10] for word in words[:8]]
    return record(
        f"p{number}", dice.uniform(0.25, 0.9), now - dice.randrange(HOURS * 3_600_000),
        dice.choice(events), " ".join(words), f"g{number // 2}", match={"why": why},
    )  # fmt: skip


def posts_shown(desk: DeskProcess) -> int:
    return sum(row["all_posts"] for row in desk.call("events")["events"])


def new_match_s(place: Place, desk: DeskProcess, event: str) -> float:
    began = time.monotonic()
    place.send("matches", ("new", record("new", 0.5, int(time.time() * 1000), event)))
    until(lambda: answer(desk, "matches", {"event": event})["stories"][0]["id"] == "new")
    return time.monotonic() - began


def answer_ms(desk: DeskProcess, path: str, values: dict[str, str], event: str) -> float:
    began = time.monotonic()
    answer(desk, path, values if path in OF_ALL else values | {"event": event})
    return (time.monotonic() - began) * 1000


def answer(desk: DeskProcess, path: str, values: dict[str, str]) -> Any:
    return desk.call(f"{path}?{urlencode(values)}")


if __name__ == "__main__":
    main()
