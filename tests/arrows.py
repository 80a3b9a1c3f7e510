"""Which room imports which, read off the code: `python -m tests.arrows` prints the picture's lines.

An arrow that follows from others is left out, as the picture would be a web.
"""

from collections import defaultdict

import grimp

TOPS = ("bench", "encoder", "newsift", "train", "worker")
ROOTS = {"encoder", "newsift", "worker"}
WHOLE = {"bench", "train"}  # one room each, as the picture has them


def room(module: str) -> str:
    """The room of a module, by its first two names."""
    parts = module.split(".")
    return parts[0] if parts[0] in WHOLE else ".".join(parts[:2])


def arrows() -> set[tuple[str, str]]:
    """From each room to those that it imports, without those that follow from others."""
    graph = grimp.build_graph(*TOPS, exclude_type_checking_imports=True, cache_dir=None)
    below: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules - ROOTS:
        for other in graph.find_modules_directly_imported_by(module) - ROOTS:
            if room(module) != room(other):
                below[room(module)].add(room(other))
    return {
        (upper, lower)
        for upper, rooms in below.items()
        for lower in rooms
        if lower not in _reached(below, rooms - {lower})
    }


def _reached(below: dict[str, set[str]], rooms: set[str]) -> set[str]:
    result: set[str] = set()
    while rooms:
        result |= rooms
        rooms = {lower for room in rooms for lower in below.get(room, ())} - result
    return result


if __name__ == "__main__":
    print("\n".join(f"    {upper} --> {lower}" for upper, lower in sorted(arrows())))  # noqa: T201
