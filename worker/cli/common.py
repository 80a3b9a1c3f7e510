"""What several commands share: the options that choose a model or a broker, and colour."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from encoder.errors import InputError
from worker.config import Config, load_config
from worker.visible import escaped

CLEAR = "\r\x1b[K"

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

KAFKA = click.option(
    "--kafka", metavar="ADDRESS", help="The broker, host:port; else NEWSIFT_KAFKA or the config."
)
CONFIG = click.option(
    "--config", "config_file", metavar="FILE", type=click.Path(path_type=Path),
    help="The configuration; else NEWSIFT_CONFIG or ./config.yaml.",
)  # fmt: skip
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


def model_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add --model, --device and --threads to a command."""
    return MODEL(DEVICE(THREADS(command)))


def kafka_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add --kafka and --config to a command, which gets what they amount to as `config`."""

    @KAFKA
    @CONFIG
    @wraps(command)
    def configured(*args: Any, kafka: str | None, config_file: Path | None, **kwargs: Any) -> R:
        return command(*args, config=configuration(kafka, config_file), **kwargs)

    return configured


def configuration(kafka: str | None, config_file: Path | None) -> Config:
    """The configuration of a command; an address on the command line comes before all else."""
    env = dict(os.environ)
    if kafka is not None:
        env.pop("NEWSIFT_KAFKA__BOOTSTRAP_SERVERS", None)
        env["NEWSIFT_KAFKA"] = kafka
    return load_config(config_file, env)


def say(told: str, clear: bool = False) -> None:
    """Tell something on standard error; `clear` takes the place of a line of progress."""
    click.echo(f"{CLEAR * clear}newsift: {escaped(told)}", err=True)


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
