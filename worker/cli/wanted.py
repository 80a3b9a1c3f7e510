"""Which matches a command is asked for: of a seed, of an event, or only what is new."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click

from worker.match.records import Match, MatchRecord

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The matches that are asked for; all, if nothing is named."""

    seeds: frozenset[str] = frozenset()
    events: frozenset[str] = frozenset()
    new: bool = False

    def of(self, record: MatchRecord) -> list[Match]:
        """Those of a record's matches that are asked for, by falling score."""
        if self.new and record.new is False:
            return []
        return [match for match in record.matches if self._named(match)]

    @property
    def narrowed(self) -> bool:
        """Whether a seed or an event is named."""
        return bool(self.seeds or self.events)

    def _named(self, match: Match) -> bool:
        by_seed = not self.seeds or match.seed_id in self.seeds
        return by_seed and (not self.events or match.event in self.events)


def wanted_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add --seed, --event and --new to a command, which gets them as `wanted`."""

    @click.option(
        "--seed", "seeds", multiple=True, metavar="ID", help="Only matches with this seed."
    )
    @click.option("--event", "events", multiple=True, metavar="NAME", help="Only this event's.")
    @click.option("--new", is_flag=True, help="Only the first of those that say the same.")
    @wraps(command)
    def narrowed(
        *args: Any, seeds: tuple[str, ...], events: tuple[str, ...], new: bool, **kwargs: Any
    ) -> R:
        wanted = Wanted(frozenset(seeds), frozenset(events), new)
        return command(*args, wanted=wanted, **kwargs)

    return narrowed
