"""Options that several commands share."""

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import wraps
from inspect import signature
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.decorators import FC
from click.shell_completion import CompletionItem

from encoder.support.named import named_models
from newsift.files.posts import FORMATS
from newsift.files.tables import FileOptions
from newsift.operations.times import parse_since
from worker.config import Config, ModelConfig

R = TypeVar("R")


class FiniteRange(click.FloatRange):
    """A range of numbers without NaN, which FloatRange takes, and without infinity."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is no finite number", param, ctx)
        return number


PATH = click.Path(path_type=Path)
KAFKA = click.option(
    "--kafka",
    metavar="ADDRESS",
    help="The broker, host:port; by default NEWSIFT_KAFKA or the configuration.",
)
CONFIG = click.option(
    "--config", "config_file", metavar="FILE", type=PATH,
    help="The configuration; by default NEWSIFT_CONFIG or ./config.yaml.",
)  # fmt: skip
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
ONE_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
YES = click.option("--yes", is_flag=True, help="Publish without asking.")


def since_option(
    help_text: str, required: bool = False, default: str | None = None
) -> Callable[[FC], FC]:
    """--since TIME; the command gets milliseconds as `start`."""
    given: dict[str, Any] = {} if default is None else {"default": default}  # None is a value
    return click.option(
        "--since", "start", metavar="TIME", required=required, help=help_text, **given,
        callback=lambda _ctx, _param, text: None if text is None else parse_since(text),
    )  # fmt: skip


def option_group(
    name: str, make: Callable[..., object], *options: Callable[[Any], Any]
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Options of a command, which gets as `name` what `make` returns for their values."""

    def add(command: Callable[..., R]) -> Callable[..., R]:
        @wraps(command)
        def with_group(**values: Any) -> R:
            group = make(**{key: values.pop(key) for key in signature(make).parameters})
            return command(**values, **{name: group})

        for option in reversed(options):
            with_group = option(with_group)
        return with_group

    return add


def configuration(kafka: str | None, config_file: Path | None) -> Config:
    """The address on the command line overrides file and environment."""
    from worker.config.load import load, with_servers

    return load(config_file, with_servers(os.environ, kafka)).config


def with_model(config: Config, model: ModelConfig) -> Config:
    """The options of the model that stand on the command line override the configuration."""
    source = click.get_current_context().get_parameter_source
    given = {
        key: value
        for key, value in asdict(model).items()
        if source(key) is ParameterSource.COMMANDLINE
    }
    return replace(config, model=replace(config.model, **given))


def _complete_model(
    _ctx: click.Context, _param: click.Parameter, prefix: str
) -> list[CompletionItem]:
    return [CompletionItem(name) for name in named_models() if name.startswith(prefix)]


kafka_options = option_group("config", configuration, KAFKA, CONFIG)
model_options = option_group(
    "model",
    ModelConfig,
    click.option("--model", "name", default="default", metavar="NAME",
                 shell_complete=_complete_model,
                 help="The model that ships, or a directory."),
    click.option("--device", default="auto", type=click.Choice(["auto", "cpu", "cuda"]),
                 help="Where it runs."),
    click.option("--threads", type=click.IntRange(min=1),
                 help="CPU threads; all cores if not given."),
)  # fmt: skip
file_options = option_group(
    "file_options",
    FileOptions,
    click.option("--format", default="auto", type=click.Choice(FORMATS),
                 help="The format of the files; auto recognises it by the content."),
    click.option("--text-column", "text", metavar="NAME",
                 help="The column or JSON key of the text."),
    click.option("--id-column", "id", metavar="NAME", help="The column or JSON key of the id."),
    click.option("--time-column", "time", metavar="NAME",
                 help="The column or JSON key of the time."),
    click.option("--author-column", "author", metavar="NAME",
                 help="The column or JSON key of the author."),
    click.option("--link-column", "link", metavar="NAME",
                 help="The column or JSON key of the post's own address."),
    click.option("--timezone", metavar="NAME",
                 help="Of times without an offset, such as Europe/Berlin; UTC if not given."),
)  # fmt: skip
