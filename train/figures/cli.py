"""`newsift figures`: the paper's figures, drawn for a model."""

from pathlib import Path

import click

from encoder.errors import InputError
from train.protocol.cli import DEVICE, RATE, SPLITS


@click.command()
@click.argument("model", default="default")
@click.option(
    "--data", type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder with pairs/ and crisis/, laid out as docs/training.md says.",
)  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where files go.")
@click.option(
    "--case", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="FOLDER",
    help="A case study: seeds/*.md and posts.jsonl; the samples if not given.",
)  # fmt: skip
@click.option(
    "--only", default="", metavar="NAMES",
    help="attention, tsne, alpha, case, appendix, reliability, by commas.",
)  # fmt: skip
@click.option("--split", default="test", type=click.Choice(list(SPLITS)), show_default=True)
@RATE
@DEVICE
def figures(
    model: str, data: Path | None, out: Path, case: Path | None, only: str,
    split: str, rate: float, device: str,
) -> None:  # fmt: skip
    """Draw the paper's figures for MODEL, a name or a directory, as SVG and PNG.

    A figure whose data is not there is passed over, with a line that says what it needs.
    """
    try:
        from train.figures.draw import chosen, draw
        from train.figures.subject import Subject
    except ModuleNotFoundError as error:
        raise InputError(
            f'{error.name} is not installed; figures need it: pip install "newsift[figures]"'
        ) from error
    subject = Subject(model, data, case, SPLITS[split], rate, device)
    written = 0
    for file in draw(subject, chosen(only), out, _say):
        click.echo(file)
        written += 1
    if subject.passed.count:
        _say(str(subject.passed))
    if not written:
        raise InputError("nothing to draw: none of the figures has the data that it needs")


def _say(line: str) -> None:
    click.echo(f"newsift: {line}", err=True)
