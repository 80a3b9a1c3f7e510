"""Compute and store a star's vectors of the training texts, which teach the gated mean.

python -m train.transformer.embed --data ../shared/data --star DIR [--threads 2]

They are stored in the folder of the star. A stopped run can be resumed. Pairs come first, then
texts in the order of their hashes, so that what is there after any time is a fair sample.
"""

from pathlib import Path

import click
import torch

from train.command import run_command
from train.data.blocks import blocks_of
from train.data.corpus import Corpus, read_corpus
from train.data.readers import SkippedRows, share
from train.loop.progress import Pace
from train.teacher.star import StarTeacher, texts_to_embed

BLOCK = 4096  # texts between two saves


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--star", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True)
def main(data: Path, star: Path, threads: int) -> None:
    """Embed posts, sentences and parts of articles with the star of a run."""
    torch.set_num_threads(threads)
    teacher, skips = StarTeacher(star), SkippedRows()
    corpus = read_corpus(data, skips)
    pairs = set(texts_to_embed(Corpus([], [], [], corpus.pairs)))
    missing = teacher.store.missing(texts_to_embed(corpus))
    missing.sort(key=lambda text: (text not in pairs, share(text)))
    click.echo(f"{len(teacher.store):,} texts have vectors, {len(missing):,} have none; {skips}")
    pace, done = Pace(0, len(missing), "text"), 0
    for block in blocks_of(missing, BLOCK):
        teacher.store.add(block, teacher.star.posts(block))
        done += len(block)
        click.echo(pace.text(done))


if __name__ == "__main__":
    run_command(main)
