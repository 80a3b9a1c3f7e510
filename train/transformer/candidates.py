"""What skimming keeps of the posts that reading finds, by how many posts are read.

python -m train.transformer.candidates --data ../shared/data --split dev [--model default]

Posts on topic of crises, at the automatic threshold and at higher ones. *Only reading finds* are
those that match where every post is read and do not where none is; of them a share is kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

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


@dataclass(slots=True)
class Kept:
    """Counts of posts on topic."""

    posts: int = 0
    every: int = 0  # found where every post is read
    none: int = 0  # where none is
    only_reading: int = 0  # by every and not by none
    kept: dict[int, int] = field(default_factory=lambda: dict.fromkeys(FACTORS, 0))

    def add(self, every: Bool, none: Bool, found: Mapping[int, Bool]) -> None:
        """Count posts [n]; `found` are those where so many times as many posts are read."""
        only_reading = every & ~none
        self.posts += len(every)
        self.every += int(every.sum())
        self.none += int(none.sum())
        self.only_reading += int(only_reading.sum())
        for factor, posts in found.items():
            self.kept[factor] += int((posts & only_reading).sum())

    def __str__(self) -> str:
        shares = (f"{n / max(self.posts, 1):.1%}" for n in (self.none, self.every))
        recall = "recall, no post read: {}, every post: {}".format(*shares)
        kept = (f"{n}: {self.kept_share(n):.1%}" for n in FACTORS)
        return f"{recall}; kept by read_factor {', '.join(kept)} of {self.only_reading:,}"

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
    together = {name: Kept() for name in RAISED}
    for crisis in crises:
        own = {name: Kept() for name in RAISED}
        count_kept(crisis, enc, (own, together))
        yield f"{crisis.name}, automatic: {own['automatic']}"
    yield from (f"all, {name}: {kept}" for name, kept in together.items())


def count_kept(crisis: CrisisSet, enc: Encoder, into: Iterable[Mapping[str, Kept]]) -> None:
    seeds = enc.articles(crisis.seeds)
    scores, near = (read(crisis.on).similarity(seeds) for read in (enc.posts, enc.skim))  # [n, k]
    alone, skimmed = enc.thresholds(seeds, RATE), enc.thresholds(seeds, RATE, skim=True)  # [k]
    cuts_of = {factor: enc.match_thresholds(seeds, RATE, factor) for factor in FACTORS}
    for name, (up, skim_up) in RAISED.items():
        # where no post is read, approximate scores are compared with a threshold of one's own
        unread = alone + up if up > skim_up else skimmed + skim_up
        every, none = any_seed(scores >= alone + up), any_seed(near >= unread)
        found = {
            factor: any_seed((scores >= cuts + up) & (near >= skim_cuts + skim_up))
            for factor, (cuts, skim_cuts) in cuts_of.items()
        }
        for kept in into:
            kept[name].add(every, none, found)


def any_seed(reaches: Bool) -> Bool:  # [n, k] -> [n]
    return np.asarray(reaches.any(axis=1), np.bool_)


if __name__ == "__main__":
    run_command(main)
