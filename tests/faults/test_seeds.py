"""What happens to the seeds: garbage, a change in flight, very many of them, compaction."""

import json
import time
from dataclasses import replace
from functools import partial
from typing import Any

from tests.broker.clients import read_to_end
from tests.faults.expected_matches import ProfileWanted, SeedWanted, seed_set
from tests.faults.messages import BAD_SEEDS
from tests.faults.process import Worker
from tests.faults.story import Story
from tests.faults.test_output import set_up

OTHER_TEXT = "police fire in the city"
MANY = 10_000


def has_seeds(worker: Worker, story: Story) -> bool:
    result = worker.page("/seeds")
    return result is not None and result.get("seed_set") == seed_set(story.seeds.values())


def seeds_of(worker: Worker) -> dict[str, Any]:
    result = worker.page("/seeds")
    assert result is not None
    return result


def test_15_garbage_among_the_seeds(story: Story) -> None:
    """The worker refuses each invalid control record with a reason, and serves the other seeds."""
    worker = story.worker()
    worker.ready()
    story.posts(30)
    story.drained()
    spoilt = story.seeds["seed-1"]
    story.control(*((key, value) for _, key, value in BAD_SEEDS))
    story.withdraw(spoilt, b'{"text": 7}')
    story.until(
        lambda: has_seeds(worker, story) and len(seeds_of(worker)["refused"]) > len(BAD_SEEDS)
    )
    story.posts(30)
    story.nothing_lost()
    late = story.worker()
    late.ready()
    assert seeds_of(late) == seeds_of(worker)
    reasons = {each["id"]: each["reason"] for each in seeds_of(worker)["refused"]}
    story.events += len(reasons)
    expected = [(key.decode(), prefix) for prefix, key, _ in BAD_SEEDS] + [(spoilt.id, "text:")]
    assert [pair for pair in expected if not reasons[pair[0]].startswith(pair[1])] == [], reasons
    assert len(reasons) == len(expected)


def test_16_a_seed_is_replaced_in_flight(story: Story) -> None:
    """A seed changes while posts flow; each match names the seed's version and the seed set."""
    worker = story.worker()
    worker.ready()
    first = story.seeds["seed-0"]
    turns = [story.oracle.seed(first.id, OTHER_TEXT), first] * (1 if story.brief else 4)
    sets = {seed_set(story.seeds.values()): first.version}
    for version in turns:
        old, new = dict(story.seeds), story.seeds | {version.id: version}
        story.before = new  # these may still be on their way when the seed changes
        story.posts(60)
        story.before = old
        story.publish(version)
        sets[seed_set(story.seeds.values())] = version.version
        story.posts(60)
        story.until(lambda: has_seeds(worker, story))
        story.before = None
        story.events += 1
    story.posts(30)
    assert story.nothing_lost().duplicates == 0
    records = set[str]()
    for row in read_to_end(story.server.address, story.topics["matches"]):
        record = json.loads(row.value)
        named = {m["seed_version"] for m in record["matches"] if m["seed_id"] == first.id}
        assert named <= {sets[record["seed_set"]]}, record
        records |= named
    assert records == set(sets.values())


def test_25_a_profile_comes_and_goes(story: Story) -> None:
    """A profile replaces its seed and goes while workers die; each post meets one of the two."""
    worker = story.worker()
    worker.ready()
    first = story.seeds["seed-0"]
    learned = story.oracle.profile(first, OTHER_TEXT)
    for now, then in ((first, learned), (learned, first)):
        story.before = swapped(story, now, then)  # posts may be on their way as it changes
        story.posts(60)
        story.before = swap(story, now, then)
        story.posts(60)
        story.until(partial(has_seeds, worker, story))
        story.before = None
        story.events += 1
    for now, then in ((first, learned), (learned, first)):
        story.posts(60)
        story.drained()
        swap(story, now, then)
        worker.kill()
        assert worker.ended() == -9
        story.events += 1
        worker = story.worker()
    story.posts(60)
    assert story.nothing_lost().duplicates == 0
    for row in read_to_end(story.server.address, story.topics["matches"]):
        met = {match["seed_id"] for match in json.loads(row.value)["matches"]}
        assert not {first.id, learned.id} <= met


def swapped(story: Story, now: SeedWanted, then: SeedWanted) -> dict[str, SeedWanted]:
    return {name: seed for name, seed in story.seeds.items() if name != now.id} | {then.id: then}


def swap(story: Story, now: SeedWanted, then: SeedWanted) -> dict[str, SeedWanted]:
    before, story.seeds = story.seeds, swapped(story, now, then)
    comes = isinstance(then, ProfileWanted)
    story.control((then.id.encode(), then.value) if comes else (now.id.encode(), None))
    return before


def test_17_joining_with_many_seeds(story: Story) -> None:
    """A worker joins with ten thousand seeds; it processes no post before it has read the last."""
    many = (SeedWanted(f"many-{n:05}", "", f"{'z' * 7} {n:x}", 1.0) for n in range(MANY))
    story.control(*((seed.id.encode(), seed.value) for seed in many))
    story.publish(story.oracle.seed("the-last", OTHER_TEXT))
    story.posts(60)
    worker, reasons = story.worker(), set[str]()

    def ready() -> bool:
        reason: str = (worker.page("/readyz") or {"reason": "no answer"})["reason"]
        if reason:
            assert story.committed() == {}, "posts were committed before it was ready"
            reasons.add(reason)
        return not reason

    story.until(ready)
    assert {"the seeds are being embedded"} <= reasons, reasons
    story.events += 1
    story.nothing_lost()
    assert len(seeds_of(worker)["live"]) == MANY + len(story.seeds)


def test_18_the_control_topic_is_compacted(story: Story) -> None:
    """A worker that read the whole control topic and one that read it compacted agree."""
    soon = {
        "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "200",
        "delete.retention.ms": "100",
    }  # fmt: skip
    for key, value in soon.items():
        set_up(story, "seeds", key, value)
    old = story.worker()
    old.ready()
    first = story.seeds["seed-0"]
    passing = replace(first, id="passing")
    for text in ("cat music game", "river city", OTHER_TEXT):
        story.publish(story.oracle.seed(first.id, text), passing, passing)
        story.withdraw(passing)
    written = 2 + 3 * 4

    def compacted() -> int:
        """How many of the records are gone."""
        story.control((b"nobody", None))  # a new segment, so that the one before can be compacted
        time.sleep(0.2)
        remaining = len(read_to_end(story.server.address, story.topics["seeds"]))
        return written - remaining if remaining <= written // 2 else 0

    story.until(compacted)
    story.events += 1
    young = story.worker()
    young.ready()
    story.until(lambda: has_seeds(old, story) and has_seeds(young, story))
    assert seeds_of(old) == seeds_of(young)
    story.posts(60)
    story.nothing_lost()
