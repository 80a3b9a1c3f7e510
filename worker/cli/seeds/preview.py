"""What `newsift seeds add` says beyond what it did: what would match, and what is missing."""

from shutil import get_terminal_size

from worker.actions.seeds import look_back
from worker.actions.seeds.known_events import Known
from worker.actions.seeds.look_back import HOURS, EventSeen, Haste, Seen
from worker.cli.seeds.from_url import at_terminal
from worker.cli.terminal import say
from worker.cli.view.table import WIDEST
from worker.visible import cut, one_line

TOLD = 5  # events
MARGIN = 17  # characters of a line that are no post


def haste() -> Haste:
    """How much may be read before whoever waits is told."""
    return look_back.AT_TERMINAL if at_terminal() else look_back.IN_A_SCRIPT


def tell(seen: Seen, events: Known, topic: str) -> None:
    """Say of each event what it would have matched, and show its best posts."""
    if not seen.posts:
        say(f"{topic} holds no post of the last {HOURS} hours to try the seeds on")
        return
    width = get_terminal_size((WIDEST, 24)).columns - MARGIN
    for name, known in list(events.items())[:TOLD]:
        found = seen.events.get(name, EventSeen())
        alone = f", {_count(found.gained)} only by what was added" if known.others else ""
        end = f"{alone}:" if found.matched else ""
        say(
            f"event {name!r}: {_count(found.matched)} of {_among(seen)} of the last {HOURS} hours "
            f"would have matched{end}"
        )
        for score, text in found.shown:
            say(f"  {score:.2f}  {cut(one_line(text), width)}")
    if len(events) > TOLD:
        say(f"{len(events) - TOLD} more events; --json --preview tells of all")


def advise(events: Known) -> None:
    """Say which events have few articles, as that is what costs most matches."""
    few = [name for name, known in events.items() if known.is_thin]
    if not few:
        return
    named = ", ".join(map(repr, few[:TOLD])) + (f" and {len(few) - TOLD} more" * (len(few) > TOLD))
    one = len(few) == 1
    say(
        f"event{'' if one else 's'} {named} {'has' if one else 'have'} fewer than three articles: "
        f"with three an event found twice as many of its posts (10 of 11, not 5); add more with "
        f"--event {repr(few[0]) if one else 'NAME'}"
    )


def _count(posts: int) -> str:
    return f"{posts:,}" if posts else "none"


def _among(seen: Seen) -> str:
    if seen.is_whole:
        return f"{seen.posts:,} posts"
    return f"a sample of {seen.posts:,} of {seen.there:,} posts"
