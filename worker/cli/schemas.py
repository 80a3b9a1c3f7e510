"""`newsift schemas`: the JSON Schemas of the records on the topics."""

import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from encoder.errors import InputError

CHECKOUT = Path(__file__).parents[2] / "deploy" / "schemas"
SUFFIXES = (".json", ".yaml")


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print all schemas as one JSON object.")
def schemas(name: str | None, as_json: bool) -> None:
    """Print the schema NAME, or the list of all: of posts, seeds, matches and dead letters.

    asyncapi is the description of the topics in AsyncAPI, which refers to the schemas.
    """
    found = named()
    if name is not None:
        if name not in found:
            raise InputError(f"no schema {name!r}; there are {', '.join(found)}")
        click.echo(found[name].read_text("utf-8"), nl=False)
        return
    parsed = {
        each: json.loads(file.read_text("utf-8"))
        for each, file in found.items() if file.name.endswith(".json")
    }  # fmt: skip
    if as_json:
        click.echo(json.dumps(parsed, ensure_ascii=False, indent=2))
        return
    width = max(map(len, found))
    for each in found:
        title = parsed[each].get("title", "") if each in parsed else "The topics, in AsyncAPI"
        click.echo(f"{each:<{width}}  {title}")


def named() -> dict[str, Traversable]:
    """The files of the schemas by name: those packed in the wheel, else the checkout's."""
    packed = files("worker") / "schemas"
    folder: Traversable = packed if packed.is_dir() else CHECKOUT
    if not folder.is_dir():
        raise InputError("schemas: are not in this installation; install newsift from its wheel")
    inside = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name.rpartition(".")[0]: file for file in inside if file.name.endswith(SUFFIXES)}
