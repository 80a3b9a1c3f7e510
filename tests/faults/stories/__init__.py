"""The faults that the worker must survive, each as a story that reads from top to bottom.

A story ends with `nothing_lost`: every post is committed, and all that it must come to is there.
Its name begins with the number of the fault in the list that the project keeps.
"""

from tests.faults.stories import deaths, output, posts, rolling, seeds, start, world
from tests.faults.story import Tell

ROOMS = (deaths, posts, seeds, output, start, world, rolling)
TOLD: dict[str, Tell] = {name: tell for room in ROOMS for name, tell in room.STORIES.items()}


def number(name: str) -> int:
    """The fault that a story is about."""
    return int(name.split(" ", 1)[0])


STORIES = {name: TOLD[name] for name in sorted(TOLD, key=number)}
