"""What several commands share: the options that choose a model, and when to use colour."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from encoder.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")

MODEL = click.option(
    "--model", default="default", metavar="NAME", help="A model that ships, or a directory."
)
DEVICE = click.option(
    "--device", default="auto", type=click.Choice(["auto", "cpu", "cuda"]), help="Where it runs."
)
THREADS = click.option(
    "--threads", type=click.IntRange(min=1), help="CPU threads; all cores if not given."
)


def model_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add --model, --device and --threads to a command."""
    return MODEL(DEVICE(THREADS(command)))


def colour_wanted() -> bool:
    """Whether standard output is a terminal whose user has not set NO_COLOR."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def read_article(file: Path) -> tuple[str, str]:
    """The title and the text of an article's file; the title is a first line that begins with #."""
    try:
        text = file.read_text("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not UTF-8 at byte {error.start + 1}; convert it") from error
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    first, _, rest = text.partition("\n")
    return (first.lstrip("# "), rest.strip()) if first.startswith("# ") else ("", text)
