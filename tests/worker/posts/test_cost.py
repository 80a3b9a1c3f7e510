"""What reading a post costs grows with its bytes and no faster, whatever they are."""

import json
from collections.abc import Iterator
from time import process_time

import pytest

from worker.config.limits import Limits
from worker.posts.read import Post, Reason, Rejected, read_post

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
def test_cost_grows_with_the_bytes_and_no_faster(form: str) -> None:
    ordinary = cost(b'{"id": "1", "text": "' + b"flood in the city " * (SMALL // 18) + b'"}', 5)
    for slot, around, unit in hostile(form):
        if cost(filled(slot, around, unit, SMALL)) > 10 * ordinary:
            least = cost(filled(slot, around, unit, SMALL), 5)
            most = cost(filled(slot, around, unit, LARGE), 3)
            assert least < 400 * ordinary, (slot, around, unit)
            assert most < 3 * LARGE / SMALL * least, (slot, around, unit)


def with_list(items: int) -> bytes:
    return b'{"id": "1", "text": "a", "unread": [[' + b",".join([b"1"] * items) + b"]]}"


def test_the_limit_on_items_is_exact_in_lists_that_are_not_read_too() -> None:
    assert isinstance(read_post(with_list(10_000)), Post)
    found = read_post(with_list(10_001))
    assert found == Rejected(Reason.LIST_ITEMS, "value: a list has 10001 items, more than 10000")
    packed = json.dumps({"event": "update", "payload": with_list(10_001).decode()}).encode()
    assert read_post(packed) == found


def test_a_tweet_s_references_are_looked_up_among_all_that_came_along() -> None:
    """What the slow reading of tests/worker/slow_posts.py says, where many have one id."""
    tweets = [{"id": n % 3, "text": None if n < 3 else f"t{n}"} for n in range(9)]
    for wanted, text in ((0, "t3"), (2, "t5"), (7, "own")):
        references = [{"id": "8", "type": "retweeted"}, {"id": wanted, "type": "retweeted"}]
        data = {"id": "1", "text": "own", "referenced_tweets": references}
        post = read_post(json.dumps({"data": data, "includes": {"tweets": tweets}}).encode())
        assert isinstance(post, Post)
        assert post.text == text


def test_the_limit_on_marks_is_exact() -> None:
    def marked(count: int) -> bytes:
        return json.dumps(
            {"id": "1", "text": "na" + "\u0301\U0001d165" * (count // 2) + "!"}
        ).encode()

    assert isinstance(read_post(marked(30)), Post)
    found = read_post(marked(32))
    told = "text: a letter has 32 combining marks, more than 30"
    assert found == Rejected(Reason.MARKS, told)
    assert isinstance(read_post(marked(32), limits=Limits(marks=32)), Post)
