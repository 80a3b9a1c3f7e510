"""Grouping: in the order of the offsets, partition by partition, anew when these are dealt anew."""

import json
from collections import Counter

import msgspec

from tests.worker.small import Mail, seed_set, small_encoder, value
from worker.match.pipeline import Outcome, Pipeline
from worker.match.records import MatchRecord
from worker.stream.grouping import Grouping
from worker.stream.ledger import Batch

FLOOD, COPY, RAID = "storm flood river city", "flood storm! river, city", "police fire city police"


def post(name: str, text: str, partition: int = 0, minute: int = 0) -> Mail:
    return Mail(value(id=name, text=text), partition=partition, timestamp=60_000 * minute)


def placed(grouping: Grouping, epoch: int, *posts: Mail) -> Outcome:
    outcome = Pipeline(small_encoder()).run(posts, seed_set(), lambda: "now")
    grouping.place(Batch(epoch, posts), outcome)
    return outcome


def groups(outcome: Outcome) -> list[tuple[str, str, bool]]:
    """The ids of the posts with their groups."""
    found = [msgspec.json.decode(each.value or b"", type=MatchRecord) for each in outcome.records]
    return [(each.post.id, str(each.group), each.new is True) for each in found]


def named(outcome: Outcome, at: int) -> str:
    best: str = json.loads(outcome.records[at].value or b"")["matches"][0]["match_id"]
    return best


def test_each_partition_has_its_own_groups_in_every_batch() -> None:
    grouping = Grouping()
    first = placed(
        grouping, 0, post("1", FLOOD), post("2", FLOOD, 1), Mail(b"no post"), post("3", COPY)
    )
    assert first.records[2].kind == "rejected"
    del first.records[2]
    a, b = named(first, 0), named(first, 1)
    assert groups(first) == [("1", a, True), ("2", b, True), ("3", a, False)]
    second = placed(grouping, 0, post("4", COPY, 1), post("5", RAID))
    assert groups(second) == [("4", b, False), ("5", named(second, 1), True)]


def test_a_new_assignment_begins_anew() -> None:
    grouping = Grouping()
    placed(grouping, 0, post("1", FLOOD))
    again = placed(grouping, 1, post("2", FLOOD))
    assert groups(again) == [("2", named(again, 0), True)]


def test_posts_and_stories_are_counted_by_event() -> None:
    posts = [post("1", FLOOD, minute=5), post("2", COPY, minute=6), post("3", RAID, minute=6)]
    outcome = placed(Grouping(), 0, *posts)
    told, stories = Counter[str](), Counter[tuple[str, int]]()
    for record, minute in zip(outcome.records, (5, 6, 6), strict=True):
        row = json.loads(record.value or b"")
        events = {match["event"] for match in row["matches"]}
        told.update(events)
        stories.update((event, minute) for event in events if row["new"])
    assert outcome.told == told
    assert outcome.stories == stories


def test_the_rest_of_a_record_stays_as_it_was() -> None:
    mail = post("1", FLOOD)
    plain = Pipeline(small_encoder()).run([mail], seed_set(), lambda: "now").records[0]
    grouped = placed(Grouping(), 0, mail).records[0]
    known = json.loads(grouped.value or b"")
    assert known == json.loads(plain.value or b"") | {"group": known["group"], "new": True}
    whole = msgspec.json.decode(grouped.value or b"", type=MatchRecord)
    assert msgspec.json.encode(whole) == grouped.value


def test_a_batch_without_a_match_is_left_alone() -> None:
    outcome = placed(Grouping(), 0, post("1", "music"), Mail(b"no post"))
    assert [record.kind for record in outcome.records] == ["rejected"]
