from collections.abc import Iterator
from time import process_time

import pytest

from worker.config.limits import Limits
from worker.posts.read import read_post

pytestmark = pytest.mark.slow

SMALL, LARGE = 2**16, 2**19
ENDLESS = Limits(list_items=2**30)
SLOTS = {  # where in a message of each form a string may stand, and where any value
    "plain": """{"id": "1", "text": $}
                {"id": $, "text": "a"}
                {"id": "1", "text": "a", $: 1}
                {"id": "1", "text": "a", "created_at": $}
                {"id": "1", "text": "a", "unread": $}""",
    "x": """{"data": {"id": "1", "text": $}}
            {"data": {"id": "1", "note_tweet": {"text": $}}}
            {"data": {"id": "1", "text": "a", "author_id": "9"}, "includes": {"users": $}}
            {"data": {"id": "1", "text": "a", "referenced_tweets": $}, "includes": {"tweets": $}}
            {"errors": $}""",
    "x1": """{"id_str": "1", "full_text": $}
             {"id_str": "1", "text": "a", "user": $}
             {"id_str": "1", "text": "a", "created_at": $}
             {"id_str": "1", "retweeted_status": $}""",
    "bluesky": """{"did": "d", "kind": "commit", "commit": $}
                  {"did": "d", "kind": "commit", "commit": {"operation": "create", "rkey": "1", \
"collection": "app.bsky.feed.post", "record": {"text": $, "langs": $}}}""",
    "mastodon": """{"id": "1", "uri": "u", "content": $}
                   {"event": "update", "payload": $}
                   {"id": "1", "uri": "u", "content": "a", "reblog": $}""",
    "none": """$
               {"unknown": $}
               {$: 1}
               ["$""",
}
STRINGS = r"""a \n é é̡̧ \u00e9 \ud800 \udc00 \ud83d\ude00 \" \\ \\ud800 < <p> <a' <a'x </ <! & &amp;
    &#1 1 &#1; &notinotinnotinnotin [ {\" http tt Wed, 2020- ' `,got`"""
VALUES = """[% [%] {%] % [[[["%"]]]] {"a":%} {"a":"%} "%"""
ITEMS = r"""1, [], {}, "", "[", 1e9, [ {"a": 1 null, {"id":"5","type":"retweeted"},
    {"id":5,"text":"b"}, "a":1, \ " - .5 [{},{}],"""


def hostile(form: str) -> Iterator[tuple[str, str, str]]:
    """Every slot, with every unit to repeat in it, in what stands around the unit."""
    for slot in SLOTS[form].split("\n"):
        yield from ((slot, '"%"', unit) for unit in [*STRINGS.split(), " "])
        yield from ((slot, around, unit) for around in VALUES.split() for unit in ITEMS.split())


def filled(slot: str, around: str, unit: str, size: int) -> bytes:
    """A message of about this size: the slots filled with the repeated unit."""
    inside = (unit * (size // len(unit) // slot.count("$"))).removesuffix(",")
    return slot.strip().replace("$", around.replace("%", inside)).encode()


def cost(value: bytes, times: int = 1) -> float:
    """CPU seconds that reading takes, whatever the limits, the least of several times."""
    spent = []
    for _ in range(times):
        started = process_time()
        read_post(value, limits=ENDLESS)
        spent.append(process_time() - started)
    return min(spent)


@pytest.mark.parametrize("form", SLOTS)
def test_cost_is_linear_in_bytes(form: str) -> None:
    ordinary = cost(b'{"id": "1", "text": "' + b"flood in the city " * (SMALL // 18) + b'"}', 5)
    for slot, around, unit in hostile(form):
        if cost(filled(slot, around, unit, SMALL)) > 10 * ordinary:
            least = cost(filled(slot, around, unit, SMALL), 5)
            most = cost(filled(slot, around, unit, LARGE), 3)
            assert least < 400 * ordinary, (slot, around, unit)
            assert most < 3 * LARGE / SMALL * least, (slot, around, unit)
