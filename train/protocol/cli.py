"""`newsift evaluate`: the protocol on one or several models."""

from pathlib import Path

import click
import msgspec

from train.data.splits import Split

SPLITS: dict[str, Split | None] = {"test": "test", "dev": "dev", "train": "train", "all": None}
RATE = click.option(
    "--rate", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.001,
    show_default=True, help="The share of everyday posts that the automatic threshold lets pass.",
)  # fmt: skip
DEVICE = click.option("--device", default="auto", type=click.Choice(["auto", "cpu", "cuda"]))


@click.command()
@click.argument("models", nargs=-1, metavar="MODEL…")
@click.option(
    "--data", type=click.Path(path_type=Path, exists=True), required=True,
    help="A folder with pairs/ and crisis/, laid out as docs/training.md says.",
)  # fmt: skip
@click.option(
    "--split", default="test", type=click.Choice(list(SPLITS)), show_default=True,
    help="Which pairs and events; `all` for data that was never trained on.",
)  # fmt: skip
@click.option("--peers/--no-peers", default=True, help="BM25, TF-IDF, and MiniLM where installed.")
@click.option("--draws", type=click.IntRange(0), default=200, show_default=True, help="0: none.")
@RATE
@click.option(
    "--mix", type=click.FloatRange(0, 1, max_open=True),
    help="λ for all models in place of their own; 0 judges the dense half alone.",
)  # fmt: skip
@DEVICE
@click.option(
    "--wrong", type=click.IntRange(0, 200), default=0, metavar="N",
    help="Show the N wrong posts of each set that score highest, and the words that carry them.",
)  # fmt: skip
@click.option("--card", is_flag=True, help="What a model's card says of it, in Markdown.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array in place of tables.")
def evaluate(
    models: tuple[str, ...], data: Path, split: str, peers: bool, draws: int, rate: float,
    mix: float | None, device: str, wrong: int, card: bool, as_json: bool,
) -> None:  # fmt: skip
    """Judge models on pairs of post and article, and on crises, beside what one could take instead.

    A MODEL is a name or a directory; the default one if none is given. The first is the one with
    which the others are compared. Pairs of the test split belong to articles that no recipe here
    trains on.
    """
    from train.loop.progress import Talk
    from train.protocol import report
    from train.protocol.card import as_markdown
    from train.protocol.evaluate import Wanted, judge_all

    wanted = Wanted(
        models or ("default",), data, SPLITS[split], peers, draws, rate, device, mix, wrong
    )
    judged, passed = judge_all(wanted, talk := Talk())
    talk.line(f"newsift: {len(judged)} sets judged, {passed}")
    # msgspec writes what could not be measured, a nan, as null
    if as_json:
        click.echo(msgspec.json.encode(judged))
        return
    click.echo(as_markdown(judged) if card else report.as_text(judged))
    if wrong and (told := report.examples(judged)):
        click.echo(f"\n{told}")
