"""A record as rows of a table: the columns of ours, and those that its post came with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from encoder.errors import InputError
from worker.files.cells import Cell
from worker.files.matches import OF_POST
from worker.match.records import Match, MatchRecord
from worker.visible import one_line

OF_MATCH = ("match_id", "score", "threshold", "event", "seed_id", "seed_version", "title")
OF_RECORD = ("matched", "seed_set", "model", "processed_at")
POST = ("platform", "post_id", *OF_POST)
IN_FILE, IN_TOPIC = ("source", "line"), ("source",)
KEYS = ("post_key", "post_digest")  # of a post in a database
TAKEN = (*OF_MATCH, *POST, "why", *IN_FILE, *OF_RECORD, "events", *KEYS)
OWN = "input_"  # before a name of the user's own that is one of ours, or another's but for case
MOST_COLUMNS = 1000  # of the user's own; SQLite takes 2000 in all

Per = Literal["match", "post"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A match record, those of its matches that were asked for, and its post's own columns."""

    value: bytes
    record: MatchRecord
    matches: Sequence[Match]
    columns: Mapping[str, str] | None = None


Add = Callable[[Sequence[Finding]], None]


@dataclass(frozen=True)
class Layout:
    """What a row stands for, where the posts come from, and which columns they bring."""

    place: tuple[str, ...]
    per: Per | None = None
    own: Sequence[str] = ()

    @cached_property
    def own_names(self) -> list[str]:
        """The user's own columns, each by a name that can be seen and that no other has."""
        if len(self.own) > MOST_COLUMNS:
            raise InputError(
                f"the input has {len(self.own):,} columns; a table keeps {MOST_COLUMNS:,} at most: "
                "leave some out, or name a file that ends in .jsonl"
            )
        taken, apart = set(TAKEN), list[str]()
        for name in self.own:
            seen = one_line(name).strip() or "column"
            while seen.lower() in taken:
                seen = OWN + seen
            taken.add(seen.lower())
            apart.append(seen)
        return apart

    @property
    def ours(self) -> tuple[str, ...]:
        """The columns of ours in `rows`."""
        events = ("events",) if self.per == "post" else ()
        return (*OF_MATCH, *POST, "why", *self.place, *OF_RECORD, *events)

    @property
    def names(self) -> list[str]:
        """The columns of `rows`."""
        return [*self.ours, *self.own_names]

    def rows(self, found: Finding) -> Iterator[list[Cell]]:
        """A row for each match, or for each post with the best of its matches."""
        best = sorted(found.matches, key=lambda match: -match.score)[:1]
        rest = [*of_place(found.record, self.place), *of_record(found.record)]
        if self.per == "post":
            rest.append("; ".join(dict.fromkeys(match.event for match in found.matches)))
        rest += self.own_cells(found)
        for match in best if self.per == "post" else found.matches:
            own = (getattr(match, name) for name in OF_MATCH)
            yield [*own, *of_post(found.record), why(match), *rest]

    def own_cells(self, found: Finding) -> list[Cell]:
        """What the post came with, in the order of the columns."""
        given = found.columns or {}
        return [given.get(name) for name in self.own]


def of_post(record: MatchRecord) -> list[Cell]:
    """The cells under `POST`."""
    post = record.post
    return [post.platform, post.id, *(getattr(post, name) for name in OF_POST)]


def of_place(record: MatchRecord, place: Sequence[str]) -> list[Cell]:
    """Where the post stood: a file and a line, or topic-partition-offset."""
    source = record.source
    if place == IN_FILE:
        return [source.topic, source.offset + 1]
    return [f"{source.topic}-{source.partition}-{source.offset}"]


def of_record(record: MatchRecord) -> list[Cell]:
    """The cells under `OF_RECORD`."""
    return [getattr(record, name) for name in OF_RECORD]


def why(match: Match) -> str:
    """The words that made most of a score, each with its part."""
    return " ".join(f"{word}[{part:.2f}]" for word, part in match.why)


def storable(cell: Cell) -> Cell:
    """A cell that every format can hold: valid UTF-8, and no number of more than 64 bits."""
    if isinstance(cell, str):
        return cell.encode("utf-8", "replace").decode()
    if isinstance(cell, int) and not -(2**63) <= cell < 2**63:
        return None
    return cell
