"""What there is of the events that seeds were added to."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker.actions.events.event import Values
from worker.config import Config
from worker.seeds.profile import Profile, read_record
from worker.seeds.record import PREFIX, RefusedSeed, Seed

ENOUGH = 2  # seeds: the mean of one is no better than itself
FEW = 3  # with fewer an event finds about half as many posts


@dataclass(slots=True)
class EventSeeds:
    """How many seeds an event has, and whether somebody made a profile of them."""

    seeds: int = 0
    others: int = 0  # than those that were added now
    has_profile: bool = False

    @property
    def may_learn(self) -> bool:
        """Whether one profile of its seeds would tell more than they do."""
        return self.seeds >= ENOUGH and not self.has_profile

    @property
    def is_thin(self) -> bool:
        """Whether more articles would find many more posts."""
        return self.seeds < FEW and not self.has_profile


def known_events(values: Values, config: Config, added: Sequence[Seed]) -> Mapping[str, EventSeeds]:
    """What there is of the events that these seeds are about, by name."""
    found: dict[str, EventSeeds] = defaultdict(EventSeeds)
    ids = {seed.id for seed in added}
    for key, value in values.items():
        each = read_record(key, value, config.limits)
        if isinstance(each, Seed) and not each.paused:
            found[each.event].seeds += 1
            found[each.event].others += each.id not in ids
        elif isinstance(each, Profile | RefusedSeed) and each.id.startswith(PREFIX):
            found[each.id.removeprefix(PREFIX)].has_profile = True
    return {name: found[name] for name in sorted({seed.event for seed in added})}
