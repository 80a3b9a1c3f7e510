"""`newsift figures`: the paper's figures, drawn for a model."""

from importlib import import_module
from pathlib import Path

import click

from encoder.errors import InputError

NEEDED = ("matplotlib", "sklearn")
SPLITS = {"test": "test", "dev": "dev", "train": "train", "all": None}


@click.command()
@click.argument("model", default="default")
@click.option(
    "--data", type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder with pairs/, crisis/ and tweets/, laid out as the README says.",
)  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where files go.")
@click.option(
    "--log", "logs", multiple=True, type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="RUN/log.jsonl", help="A log of training; several are drawn over one another.",
)  # fmt: skip
@click.option(
    "--case", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="FOLDER",
    help="A case study: seeds/*.md and posts.jsonl; the samples if not given.",
)  # fmt: skip
@click.option(
    "--only", multiple=True, metavar="NAMES",
    help="attention, tsne, alpha, curves, precision-recall, scores, case, appendix.",
)  # fmt: skip
@click.option("--split", default="test", type=click.Choice(list(SPLITS)), show_default=True)
@click.option(
    "--rate", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.001,
    show_default=True, help="The share of everyday posts that the automatic threshold lets pass.",
)  # fmt: skip
@click.option("--device", default="auto", type=click.Choice(["auto", "cpu", "cuda"]))
def figures(
    model: str, data: Path | None, out: Path, logs: tuple[Path, ...], case: Path | None,
    only: tuple[str, ...], split: str, rate: float, device: str,
) -> None:  # fmt: skip
    """Draw the paper's figures for MODEL, a name or a directory, as SVG and PNG.

    A figure whose data is not there is passed over, with a line that says what it needs.
    """
    require(NEEDED)
    from train.figures.draw import chosen, draw
    from train.figures.subject import Subject

    subject = Subject(model, data, logs, case, SPLITS[split], rate, device)  # type: ignore[arg-type]
    written = 0
    for file in draw(subject, chosen(only), out, _say):
        click.echo(file)
        written += 1
    if subject.passed.count:
        _say(f"rows passed over: {subject.passed.count} ({'; '.join(subject.passed.told)}, …)")
    if not written:
        raise InputError("nothing to draw: none of the figures has the data that it needs")


def require(packages: tuple[str, ...]) -> None:
    """Refuse to go on without what draws."""
    for package in packages:
        try:
            import_module(package)
        except ImportError as error:
            raise InputError(
                f'{package} is not installed; figures need it: pip install "newsift[figures]"'
            ) from error


def _say(line: str) -> None:
    click.echo(f"newsift: {line}", err=True)
