"""What skimming keeps of the posts that reading finds, by how many posts are read.

python -m train.transformer.candidates --data ../shared/data --split dev [--model default]

Posts on topic of crises, at the automatic threshold and at higher ones. *Only reading finds* are
those that match where every post is read and do not where none is; of them a share is kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import click
import numpy as np
from numpy.typing import NDArray

import encoder
from encoder import Encoder
from train.command import run_command
from train.data.readers import SkippedRows, split_of_event
from train.protocol.sets import CrisisSet, read_crises

RATE = 0.001
FACTORS = (2, 5, 10, 30)
# By how much a threshold, and its skim threshold, is above the automatic one.
RAISED = {
    "automatic": (0.0, 0.0),
    "own thresholds, 0.05 above": (0.05, 0.0),
    "own thresholds, 0.2 above": (0.2, 0.0),
    "a total_rate that adds 0.1": (0.1, 0.1),
}
Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Kept:
    """Counts of posts on topic."""

    posts: int
    every: int  # found where every post is read
    none: int  # found where no post is read
    only_reading: int  # found where every post is read, and not where none is
    kept: Mapping[int, int]  # of the last, by read_factor

    @classmethod
    def count(cls, every: Bool, none: Bool, found: Mapping[int, Bool]) -> Self:
        """Count posts [n] by whether they are found; `found` has a row for each read_factor."""
        only_reading = every & ~none
        kept = {factor: int((row & only_reading).sum()) for factor, row in found.items()}
        return cls(
            posts=len(every),
            every=int(every.sum()),
            none=int(none.sum()),
            only_reading=int(only_reading.sum()),
            kept=kept,
        )

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.posts + other.posts,
            self.every + other.every,
            self.none + other.none,
            self.only_reading + other.only_reading,
            {factor: count + other.kept[factor] for factor, count in self.kept.items()},
        )

    def __str__(self) -> str:
        none, every = self.none / self.posts, self.every / self.posts
        kept = (f"{factor}: {self.kept_share(factor):.1%}" for factor in self.kept)
        return (
            f"recall, no post read: {none:.1%}, every post: {every:.1%}; "
            f"kept by read_factor {', '.join(kept)} of {self.only_reading:,}"
        )

    def kept_share(self, factor: int) -> float:
        """The share found of what only reading finds; 1 where that is nothing."""
        return self.kept[factor] / self.only_reading if self.only_reading else 1.0


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option(
    "--split", type=click.Choice(["dev", "test", "all"]), default="dev", show_default=True
)
@click.option("--model", default="default", show_default=True)
def main(data: Path, split: str, model: str) -> None:
    """Print recall, and the share that is kept, for each crisis of a split and for all of them."""
    crises = read_crises(data, SkippedRows())
    chosen = [crisis for crisis in crises if split in ("all", split_of_event(crisis.name))]
    for line in table(chosen, encoder.load(model)):
        click.echo(line)


def table(crises: Iterable[CrisisSet], enc: Encoder) -> Iterator[str]:
    together: dict[str, Kept] = {}
    for crisis in crises:
        own = count_kept(crisis, enc)
        yield f"{crisis.name}, automatic: {own['automatic']}"
        together = {name: kept + together[name] if together else kept for name, kept in own.items()}
    yield from (f"all, {name}: {kept}" for name, kept in together.items())


def count_kept(crisis: CrisisSet, enc: Encoder) -> dict[str, Kept]:
    """The counts of one crisis for each kind of threshold."""
    seeds = enc.articles(crisis.seeds)
    scores, near = (read(crisis.on).similarity(seeds) for read in (enc.posts, enc.skim))  # [n, k]
    alone, skimmed = enc.thresholds(seeds, RATE), enc.thresholds(seeds, RATE, skim=True)  # [k]
    cuts_of = {factor: enc.match_thresholds(seeds, RATE, factor) for factor in FACTORS}
    counts = {}
    for name, (up, skim_up) in RAISED.items():
        # Where no post is read, an own threshold is compared with approximate scores as it stands.
        near_cuts = alone + up if up > skim_up else skimmed + skim_up
        found = {
            factor: any_seed((scores >= cuts + up) & (near >= skim_cuts + skim_up))
            for factor, (cuts, skim_cuts) in cuts_of.items()
        }
        every, none = any_seed(scores >= alone + up), any_seed(near >= near_cuts)
        counts[name] = Kept.count(every, none, found)
    return counts


def any_seed(reaches: Bool) -> Bool:  # [n, k] -> [n]
    return np.asarray(reaches.any(axis=1), np.bool_)


if __name__ == "__main__":
    run_command(main)
