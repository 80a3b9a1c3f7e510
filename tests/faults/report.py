"""The results of a campaign: a line for each story on the terminal, and docs/reliability.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tests.faults.story import DRAINS_WITHIN_S

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
HEAD = (
    "#", "what happens", "broker", "fired", "posts", "missing", "duplicates (allowed)",
    "drained within, s", "all in all, s",
)  # fmt: skip
SHORT = ("#", "", "broker", "fired", "posts", "missing", "twice", "drained", "seconds")
TEXT = """\
# Reliability

The checker does not use the worker's code: it derives what each post must produce, and compares the topics and the commits with that.
In a row, the fault occurred as often as `fired` says, nothing is missing, wrong or committed too early, and no more is repeated than allowed.

Written by `{command}` on {day}.
`make faults` runs every story in full, with the worker as a process of its own; `--fork` forks it, and shortens some stories. A story fails if its
fault did not occur, or if its posts are not all done within {bound:g} s.
{left_out}
{table}
"""  # noqa: E501 - lines of the page


@dataclass(frozen=True, slots=True)
class Row:
    number: int
    what: str
    broker: str
    fired: int
    posts: int
    missing: int
    duplicates: int
    allowed: int
    drained_s: float
    seconds: float

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            str(self.number), self.what, self.broker, str(self.fired), str(self.posts),
            str(self.missing), f"{self.duplicates} ({self.allowed})", f"{self.drained_s:.1f}",
            f"{self.seconds:.1f}",
        )  # fmt: skip


def line(cells: Sequence[str], what: str) -> str:
    number, _, broker, *figures = cells
    return f"{number:>3} {what:<27.27}{broker:<10}" + "".join(f"{each:>9}" for each in figures)


def page(rows: Sequence[Row], command: str, left_out: Sequence[str]) -> str:
    table = [HEAD, ("---",) * len(HEAD), *(row.cells for row in sorted(rows, key=place))]
    return TEXT.format(
        command=command,
        day=f"{date.today():%d %B %Y}",
        bound=DRAINS_WITHIN_S,
        left_out="".join(f"\nLeft out: {each}\n" for each in left_out),
        table="\n".join(f"| {' | '.join(cells)} |" for cells in table),
    )


def place(row: Row) -> tuple[int, str, str]:
    return row.number, row.what, row.broker
