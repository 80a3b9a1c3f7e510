"""`newsift models`: list, add, remove and pack models."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from encoder.errors import InputError
from encoder.support.named import MODELS, named_models
from newsift.cli.group import CommandGroup
from newsift.cli.options import JSON, PATH
from newsift.cli.output import print_json, table
from newsift.files.read import DASH
from newsift.files.write import check_targets
from newsift.operations.messages import notify
from newsift.operations.models import add, model_row, pack, remove


@click.group(cls=CommandGroup)
def models() -> None:
    """List, add and remove models beside the one that ships.

    A model that was added is used by its name: --model NAME, or model.name in the configuration. It
    is stored in the folder `models` of NEWSIFT_STATE, else of the user's state folder.
    """


@models.command("list")
@JSON
def list_models(as_json: bool) -> None:
    """List the models by name: the one that ships, then those that were added."""
    rows = [model_row(name, path) for name, path in named_models().items()]
    if as_json:
        print_json(rows)
        return
    cells = [
        [r["name"], (r["digest"] or "")[:12], _size(r["bytes"]), r["path"], r["about"]]
        for r in rows
    ]
    table(["name", "model", "size", "where", "its card"], cells)


def _check_digest(_ctx: click.Context, _param: click.Parameter, digest: str | None) -> str | None:
    if digest is None:
        return None
    if len(digest) != 64 or set(digest.lower()) - set("0123456789abcdef"):
        raise click.BadParameter(f"{digest!r} is not a SHA-256; give its 64 hex digits")
    return digest.lower()


@models.command("add")
@click.argument("source", metavar="FILE|URL")
@click.option(
    "--digest", metavar="HEX", callback=_check_digest,
    help="The SHA-256 of the file; required with a URL.",
)  # fmt: skip
@click.option(
    "--name", metavar="NAME", help="The model's name; by default the file's, without .tar."
)
def add_model(source: str, digest: str | None, name: str | None) -> None:
    """Add a model that `newsift models pack` has packed, from a file or an https address.

    The file is checked against --digest and the model against its manifest before it is installed.
    After an error nothing is left behind.
    """
    place = add(source, digest, name)
    row = model_row(place.name, place)
    details = f"model {row['digest'][:12]}, {_size(row['bytes'])}, in {place}"
    notify(f"added {place.name}: {details}; use it by --model {place.name}")


def _complete_name(
    _ctx: click.Context, _param: click.Parameter, prefix: str
) -> list[CompletionItem]:
    models = named_models().items()
    return [CompletionItem(n) for n, p in models if p.parent != MODELS and n.startswith(prefix)]


@models.command("remove")
@click.argument("name", shell_complete=_complete_name)
def remove_model(name: str) -> None:
    """Remove a model that was added. Workers that have loaded it continue with it."""
    remove(name)
    notify(f"removed {name}")


@models.command("pack")
@click.argument("directory", type=PATH)
@click.option("--out", required=True, metavar="FILE", type=PATH,
              help="The file to write; NAME.tar is added as NAME.")  # fmt: skip
def pack_model(directory: Path, out: Path) -> None:
    """Pack a model directory and its card into one file, and print the file's SHA-256.

    The card is card.md in the directory, or a file beside it with the directory's name and .md.
    """
    if out == DASH:
        raise InputError("--out -: standard output gets the SHA-256; name a file")
    check_targets({"--out": out}, [])
    click.echo(f"{pack(directory, out)}  {out}")


def _size(size: int | None) -> str | None:
    return None if size is None else f"{size / 1e6:.0f} MB"
