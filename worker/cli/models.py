"""`newsift models`: what models there are here; add one that does not ship, or take it away."""

from pathlib import Path

import click
from click.shell_completion import CompletionItem

from encoder.support.named import MODELS, named_models
from worker.actions.models.adding import add, remove
from worker.actions.models.archive import pack
from worker.actions.models.listing import listed, row_of
from worker.actions.told import say
from worker.cli.options import JSON
from worker.cli.view.table import print_json, table


@click.group()
def models() -> None:
    """List, add and remove models beside the one that ships.

    A model that was added is found by its name: --model NAME, or model.name in the configuration.
    It is kept in the folder `models` of NEWSIFT_STATE, else of the user's state folder.
    """


@models.command("list")
@JSON
def list_models(as_json: bool) -> None:
    """The models that have a name here: what ships, then what was added."""
    rows = listed()
    if as_json:
        print_json(rows)
        return
    cells = [
        [r["name"], (r["digest"] or "")[:12], _size(r["bytes"]), r["path"], r["about"]]
        for r in rows
    ]  # fmt: skip
    table(["name", "model", "size", "where", "its card"], cells)


def _digest(_ctx: click.Context, _param: click.Parameter, given: str | None) -> str | None:
    if given is None:
        return None
    if len(given) != 64 or set(given.lower()) - set("0123456789abcdef"):
        raise click.BadParameter(f"{given!r} is no SHA-256; give its 64 hex digits")
    return given.lower()


@models.command("add")
@click.argument("source", metavar="FILE|URL")
@click.option(
    "--digest", metavar="HEX", callback=_digest,
    help="The SHA-256 that the file has to have; needed with a URL.",
)  # fmt: skip
@click.option("--name", metavar="NAME", help="Its name here; else the file's, without .tar.")
def add_model(source: str, digest: str | None, name: str | None) -> None:
    """Add a model that `newsift models pack` has packed, from a file or an https address.

    It is checked before it takes its place: the file against --digest, the model against its
    manifest. Whatever goes wrong leaves nothing behind.
    """
    place = add(source, digest, name)
    row = row_of(place.name, place)
    told = f"model {row['digest'][:12]}, {_size(row['bytes'])}, in {place}"
    say(f"added {place.name}: {told}; use it by --model {place.name}")


def _added(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    found = named_models().items()
    return [CompletionItem(n) for n, p in found if p.parent != MODELS and n.startswith(begun)]


@models.command("remove")
@click.argument("name", shell_complete=_added)
def remove_model(name: str) -> None:
    """Take away a model that was added; workers that have loaded it go on with it."""
    remove(name)
    say(f"removed {name}")


@models.command("pack")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, metavar="FILE", type=click.Path(path_type=Path),
    help="Where to; named NAME.tar, it is added as NAME.",
)  # fmt: skip
def pack_model(directory: Path, out: Path) -> None:
    """Pack a model directory, its card with it, as one file, and print that file's SHA-256.

    The card is card.md in the directory, or the directory's name with .md beside it.
    """
    click.echo(f"{pack(directory, out)}  {out}")


def _size(size: int | None) -> str | None:
    return None if size is None else f"{size / 1e6:.0f} MB"
