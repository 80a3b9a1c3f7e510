"""`newsift schemas`: print the JSON Schemas of the records."""

import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from encoder.errors import InputError

CHECKOUT_FOLDER = Path(__file__).parents[2] / "deploy" / "schemas"
SUFFIXES = (".json", ".yaml")


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print all schemas as one JSON object.")
def schemas(name: str | None, as_json: bool) -> None:
    """Print the schema NAME, or a list of all: posts, seeds, matches, dead letters and others.

    asyncapi describes the topics in AsyncAPI and refers to the schemas.
    """
    by_name = schema_files()
    if name is not None:
        if name not in by_name:
            raise InputError(f"no schema {name!r}; there are {', '.join(by_name)}")
        click.echo(by_name[name].read_text("utf-8"), nl=False)
        return
    objects = {
        schema: json.loads(file.read_text("utf-8"))
        for schema, file in by_name.items() if file.name.endswith(".json")
    }  # fmt: skip
    if as_json:
        click.echo(json.dumps(objects, ensure_ascii=False, indent=2))
        return
    width = max(map(len, by_name))
    for schema in by_name:
        title = objects[schema].get("title", "") if schema in objects else "The topics, in AsyncAPI"
        click.echo(f"{schema:<{width}}  {title}")


def schema_files() -> dict[str, Traversable]:
    """The schemas in the wheel, else those of the checkout, by name."""
    installed_folder = files("newsift") / "schemas"
    folder: Traversable = installed_folder if installed_folder.is_dir() else CHECKOUT_FOLDER
    if not folder.is_dir():
        raise InputError("schemas: are not in this installation; install newsift from its wheel")
    schemas = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name.rpartition(".")[0]: file for file in schemas if file.name.endswith(SUFFIXES)}
