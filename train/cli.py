"""`newsift train`: a recipe, a folder of data, a model."""

from dataclasses import replace
from pathlib import Path

import click


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
@click.option("--cache", type=click.Path(path_type=Path), help="Where the teacher's vectors are.")
@click.option(
    "--vectors", type=click.Path(path_type=Path),
    help="Word vectors in the format of GloVe, for a recipe that starts with some.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), help="Another seed than the recipe's.")
@click.option("--device", default="cpu", type=click.Choice(["cpu", "cuda"]), show_default=True)
@click.option("--threads", type=click.IntRange(1), help="CPU threads; all cores if not given.")
def train(
    recipe: str, data: Path, out: Path, work: Path | None, cache: Path | None,
    vectors: Path | None, seed: int | None, device: str, threads: int | None,
) -> None:  # fmt: skip
    """Train a model by RECIPE, a name that ships or a YAML file.

    A run that was stopped goes on where its last checkpoint was kept, and ends as if it had not
    been stopped. `newsift train default` makes the model that ships.
    """
    from train.recipe import read_recipe

    read = read_recipe(recipe)
    if seed is not None:
        read = replace(read, seed=seed)

    import torch

    from train.loop.progress import Talk
    from train.run import Order, train_model

    if threads:
        torch.set_num_threads(threads)
    kept = work or out.with_name(f"{out.name}.run")
    order = Order(read, recipe, data, out, kept, device, cache, vectors)
    digest = train_model(order, Talk())
    click.echo(f"{out}: digest {digest}")
