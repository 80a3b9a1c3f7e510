"""`newsift config`: check or show the configuration."""

import json
import os
from difflib import get_close_matches
from pathlib import Path

import click

from encoder.errors import NewsiftError
from encoder.support.named import model_directory
from newsift.cli.group import CommandGroup
from newsift.cli.options import CONFIG, KAFKA, ONE_JSON
from newsift.cli.topics import check as check_topics
from worker.background_file import BACKGROUND_KEY, file_digest
from worker.config import KEYS
from worker.config.load import load, with_servers
from worker.config.text import read_template, render_config, to_values
from worker.errors import ConfigError
from worker.kafka.settings import tls_context
from worker.text import escape_invisible

# Beside those of the keys, such as NEWSIFT_KAFKA__GROUP
VARIABLES = (
    "NEWSIFT_CACHE", "NEWSIFT_CONFIG", "NEWSIFT_DEBUG", "NEWSIFT_KAFKA", "NEWSIFT_MASTODON_TOKEN",
    "NEWSIFT_STATE", "NEWSIFT_X_TOKEN",
)  # fmt: skip
MIN_LIKENESS = 0.9  # Kubernetes sets variables such as NEWSIFT_KAFKA_PORT for a service.


@click.group(cls=CommandGroup)
def config() -> None:
    """Check the configuration, or show it."""


@config.command("check")
@CONFIG
@KAFKA
def check_config(config_file: Path | None, kafka: str | None) -> None:
    """Check the file and the environment variables, and that the files they name exist."""
    source = load(config_file, with_servers(os.environ, kafka))
    for name in sorted(os.environ):
        near = get_close_matches(name, VARIABLES, 1, MIN_LIKENESS)
        if near and name not in VARIABLES:
            line = f"{name}: no such variable; did you mean {near[0]}?"
            click.echo(escape_invisible(line), err=True)
    tls_context(source.config)
    try:
        model_directory(source.config.model.name)
    except NewsiftError as error:
        raise ConfigError(f"{source.origins['model.name']}: model.name: {error}") from error
    if file := source.config.matching.background:
        try:
            file_digest(file)
        except NewsiftError as error:
            raise ConfigError(
                f"{source.origins[BACKGROUND_KEY]}: {BACKGROUND_KEY}: {error}"
            ) from error
    own_keys = [
        f"{section}.{name}" for section, keys in KEYS.items() for name, key in keys.items()
        if getattr(getattr(source.config, section), name) != key.default
    ]  # fmt: skip
    summary = f"not the default: {', '.join(own_keys)}" if own_keys else "every key has its default"
    click.echo(escape_invisible(f"{source.file or 'the defaults'}: valid; {summary}"), err=True)


@click.command()
@CONFIG
@KAFKA
@click.pass_context
def check(ctx: click.Context, config_file: Path | None, kafka: str | None) -> int:
    """Check the configuration, then the topics: `config check` and `topics check`.

    Exits with 2 if the configuration or the broker is refused, with 1 if a topic must be changed.
    """
    ctx.invoke(check_config, config_file=config_file, kafka=kafka)
    code: int = ctx.invoke(check_topics, config_file=config_file, kafka=kafka, as_json=False)
    return code


@config.command()
@CONFIG
@KAFKA
@ONE_JSON
@click.option("--template", is_flag=True, help="Print the defaults with what each key means.")
def show(config_file: Path | None, kafka: str | None, as_json: bool, template: bool) -> None:
    """Print every key with its value and where the value comes from. Secrets are not shown."""
    if template and as_json:
        raise click.UsageError("--template prints the file that ships; leave --json out")
    if template:
        click.echo(read_template(), nl=False)
        return
    source = load(config_file, with_servers(os.environ, kafka))
    if as_json:
        values = to_values(source.config)
        file = None if source.file is None else str(source.file)
        click.echo(json.dumps({"file": file, "values": values, "origins": dict(source.origins)}))
        return
    click.echo(render_config(source.config, source.origins), nl=False)
