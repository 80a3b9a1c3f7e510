"""Commands of training: `newsift train`, `evaluate` and `figures`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from encoder.errors import InputError
from train.data.readers import Split


@click.command()
@click.argument("recipe")
@click.option(
    "--data", type=click.Path(path_type=Path, exists=True), required=True,
    help="A folder with pairs/, crisis/, tweets/, articles/.",
)  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The model to write.")
@click.option(
    "--work", type=click.Path(path_type=Path),
    help="Where checkpoints and the log are kept; OUT.run if not given.",
)  # fmt: skip
@click.option(
    "--star", type=click.Path(path_type=Path, exists=True),
    help="The star that teaches, with its vectors of the texts (docs/training.md).",
)  # fmt: skip
@click.option(
    "--vectors", type=click.Path(path_type=Path),
    help="Word vectors in the format of GloVe, for a recipe that starts with some.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Another seed than the recipe's.")
@click.option("--device", default="cpu", type=click.Choice(["cpu", "cuda"]), show_default=True)
@click.option("--threads", type=click.IntRange(1), help="CPU threads; all cores if not given.")
def train(
    recipe: str, out: Path, work: Path | None, seed: int | None, threads: int | None, **options: Any
) -> None:
    """Train a model by RECIPE, a name that ships or a YAML file.

    A stopped run resumes from its last checkpoint and gives the same model. `newsift train
    default` makes the gated mean that skims for a star.
    """
    from train.recipe import read_recipe

    read = read_recipe(recipe)
    if seed is not None:
        read = replace(read, seed=seed)

    import torch

    from train.loop.progress import ProgressLog
    from train.run import TrainingOptions, train_model

    if threads:
        torch.set_num_threads(threads)
    folder = work or Path(f"{out}.run")
    order = TrainingOptions(recipe=read, name=recipe, out=out, work=folder, **options)
    digest = train_model(order, ProgressLog())
    click.echo(f"{out}: digest {digest}")


SPLITS: dict[str, Split | None] = {"test": "test", "dev": "dev", "train": "train", "all": None}
RATE = click.option(
    "--rate", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.001,
    show_default=True, help="The share of everyday posts that the automatic threshold lets pass.",
)  # fmt: skip
DEVICE = click.option("--device", default="auto", type=click.Choice(["auto", "cpu", "cuda"]))


@click.command()
@click.argument("models", nargs=-1, metavar="[MODEL]…")
@click.option(
    "--data", type=click.Path(path_type=Path, exists=True), required=True,
    help="A folder with pairs/ and crisis/, laid out as docs/training.md says.",
)  # fmt: skip
@click.option(
    "--split", default="test", type=click.Choice(list(SPLITS)), show_default=True,
    help="Which pairs and events; `all` for data that was never trained on.",
)  # fmt: skip
@click.option(
    "--peers/--no-peers", default=True, help="BM25, TF-IDF; MiniLM and MPNet where installed."
)
@click.option("--draws", type=click.IntRange(0), default=200, show_default=True, help="0: none.")
@RATE
@click.option(
    "--mix", type=click.FloatRange(0, 1, max_open=True),
    help="λ for all models in place of their own; 0 judges the dense half alone.",
)  # fmt: skip
@click.option(
    "--reader", default="read", type=click.Choice(["read", "skim"]), show_default=True,
    help="How models with two readers see posts.",
)  # fmt: skip
@DEVICE
@click.option(
    "--wrong", type=click.IntRange(0, 200), default=0, metavar="N",
    help="Show the N wrong posts of each set that score highest, and the words that carry them.",
)  # fmt: skip
@click.option("--card", is_flag=True, help="What a model's card says of it, in Markdown.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array in place of tables.")
def evaluate(
    models: tuple[str, ...], split: str, wrong: int, card: bool, as_json: bool, **options: Any
) -> None:
    """Evaluate models on pairs of post and article and on crises, beside alternatives.

    A MODEL is a name or a directory; by default the model that ships. The others are compared with
    the first. No recipe trains on the articles of the test split.
    """
    from train.loop.progress import ProgressLog
    from train.protocol.evaluate import Evaluation, judge_all
    from train.protocol.report import as_markdown, as_text, examples

    evaluation = Evaluation(
        models=models or ("default",),
        split=SPLITS[split],
        examples=wrong,
        trust=card or as_json or wrong > 0,
        **options,
    )
    results, skips = judge_all(evaluation, log := ProgressLog())
    log.line(f"newsift: {len(results)} sets judged, {skips}")
    # msgspec writes what could not be measured, a nan, as null
    if as_json:
        click.echo(msgspec.json.encode(results))
        return
    click.echo(as_markdown(results) if card else as_text(results))
    if not wrong:
        return
    if text := examples(results):
        click.echo(f"\n{text}")
    elif any(result.trust for result in results):
        log.line("newsift: --wrong: no wrong post reaches the threshold of an article")


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
def figures(out: Path, only: str, split: str, **options: Any) -> None:
    """Draw the paper's figures for MODEL, a name or a directory, as SVG and PNG.

    A figure without data is skipped, with a message that names what it needs.
    """
    from train.figures.draw import draw, parse_names
    from train.figures.subject import Subject

    subject = Subject(split=SPLITS[split], **options)
    file_count = 0
    for file in draw(subject, parse_names(only), out, _say):
        click.echo(file)
        file_count += 1
    if subject.skips.count:
        _say(str(subject.skips))
    if not file_count:
        raise InputError("nothing to draw: none of the figures has the data that it needs")


def _say(line: str) -> None:
    click.echo(f"newsift: {line}", err=True)
