"""What skimming keeps of the posts that reading finds, by how many posts are read.

python -m train.transformer.candidates --data ../shared/data --split dev [--model default]

Posts on topic of a crisis, at the automatic threshold. *Only reading finds* are those that match
where every post is read and do not where none is; of them a share is kept.
"""

from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

import encoder
from encoder import Encoder
from train.command import run_command
from train.data.readers import SkippedRows, Split, split_of_event
from train.protocol.sets import CrisisSet, read_crises

RATE = 0.001
FACTORS = (2, 5, 10, 30)
Bool = NDArray[np.bool_]


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--split", type=click.Choice(["dev", "test"]), default="dev", show_default=True)
@click.option("--model", default="default", show_default=True)
def main(data: Path, split: Split, model: str) -> None:
    """Print recall, and the share that is kept, for each crisis of a split."""
    enc = encoder.load(model)
    for crisis in read_crises(data, SkippedRows()):
        if split_of_event(crisis.name) == split:
            for line in table(crisis, enc):
                click.echo(line)


def table(crisis: CrisisSet, enc: Encoder) -> Iterator[str]:
    seeds, read, skimmed = enc.articles(crisis.seeds), enc.posts(crisis.on), enc.skim(crisis.on)
    scores, near = read.similarity(seeds), skimmed.similarity(seeds)  # [n, k]
    every = any_seed(scores >= enc.thresholds(seeds, RATE))
    none = any_seed(near >= enc.thresholds(seeds, RATE, skim=True))
    yield f"{crisis.name}: recall, no post read: {none.mean():.1%}, every post: {every.mean():.1%}"
    for factor in FACTORS:
        cuts, skim_cuts = enc.match_thresholds(seeds, RATE, factor)
        found = any_seed((scores >= cuts) & (near >= skim_cuts))
        kept = kept_share(found, every, none)
        yield f"  read_factor {factor}: recall {found.mean():.1%}, kept {kept:.1%}"


def any_seed(reaches: Bool) -> Bool:  # [n, k] -> [n]
    return np.asarray(reaches.any(axis=1), np.bool_)


def kept_share(found: Bool, every: Bool, none: Bool) -> float:
    """The share found of what only reading finds; 1 where that is nothing."""
    only_reading = every & ~none
    return float(found[only_reading].mean()) if only_reading.any() else 1.0


if __name__ == "__main__":
    run_command(main)
