"""What labels show is one object, shown and decided by, until something of it moves."""

from dataclasses import replace

from newsift.desk.evidence import EvidenceCache
from newsift.operations.labels import EventMatch
from newsift.statistics.labels import Label
from tests.worker.learned import profile_of
from tests.worker.small import ARTICLES, small_encoder
from worker.posts.outcome import Post, PostId

SAID = Label("on", "storm", Post("1", "x", "smoke"), "ann", "2026-11-20T10:00:00Z", "certify", 0.5)


def test_it_is_the_same_object_until_a_profile_a_label_a_match_or_the_wish_is_another() -> None:
    cache = EvidenceCache()
    matches: dict[PostId, EventMatch] = {}
    profile = profile_of(small_encoder(), "storm", {"flood": ("", ARTICLES["flood"])})
    first = cache.of(profile, (SAID,), matches, 0.8, 0.9)
    assert cache.of(profile, (SAID,), matches, 0.8, 0.9) is first
    assert (first.result.threshold, first.result.matches, first.wish.precision) == (None, 0, 0.8)
    other = cache.of(profile, (SAID,), matches, 0.7, 0.9)
    assert other is not first
    assert cache.of(profile, (SAID,), matches, 0.8, 0.9) is first
    for moved in (
        cache.of(profile, (), matches, 0.8, 0.9),
        cache.of(profile, (SAID,), {}, 0.8, 0.9),
        cache.of(replace(profile, threshold=0.5), (SAID,), matches, 0.8, 0.9),
    ):
        assert moved is not first
