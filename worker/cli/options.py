"""Options that several commands share: the model, the broker, the time, and how to print."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click
from click.shell_completion import CompletionItem

from encoder.support.named import named_models
from worker.actions.times import since
from worker.config import Config
from worker.files.formats.columns import FileOptions
from worker.files.formats.recognise import FORMATS

P = ParamSpec("P")
R = TypeVar("R")


def _models(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in named_models() if name.startswith(begun)]


MODEL = click.option(
    "--model", default="default", metavar="NAME", shell_complete=_models,
    help="A model that ships or was added, or a directory.",
)  # fmt: skip
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
ONE_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def since_option(said: str, required: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """--since TIME, which a command gets in milliseconds."""

    def moment(_ctx: click.Context, _param: click.Parameter, given: str | None) -> int | None:
        return None if given is None else since(given)

    return click.option(
        "--since", "start", metavar="TIME", required=required, help=said, callback=moment
    )


def file_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add --format and the columns to a command, which gets what they amount to as `wanted`."""

    @click.option(
        "--format", "form", default="auto", type=click.Choice(FORMATS),
        help="What the files are; auto tells by what is in them.",
    )  # fmt: skip
    @click.option(
        "--text-column", "text", metavar="NAME", help="What holds the text, in tables and in JSON."
    )
    @click.option("--id-column", "id", metavar="NAME", help="What holds the id.")
    @click.option("--time-column", "time", metavar="NAME", help="What holds the time.")
    @click.option(
        "--timezone", metavar="NAME",
        help="Of times without an offset, such as Europe/Berlin; UTC if not given.",
    )  # fmt: skip
    @wraps(command)
    def given(
        *args: Any, form: str, text: str | None, id: str | None, time: str | None,
        timezone: str | None, **kwargs: Any,
    ) -> R:  # fmt: skip
        return command(*args, wanted=FileOptions(form, text, id, time, timezone), **kwargs)

    return given


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
    from worker.config.load import load, overridden

    return load(config_file, overridden(os.environ, kafka)).config
