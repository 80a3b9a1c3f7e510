"""`newsift config`: whether the configuration is right, and what is in force."""

import json
import os
from pathlib import Path

import click

from encoder.errors import NewsiftError
from encoder.support.named import model_directory
from worker.background.file import KEY, digest_of
from worker.cli.options import CONFIG, KAFKA, ONE_JSON
from worker.config import KEYS
from worker.config.load import load, overridden
from worker.config.text import as_values, packaged, rendered
from worker.errors import ConfigError
from worker.kafka.settings import tls_context
from worker.visible import escaped


@click.group()
def config() -> None:
    """Check the configuration, or show what is in force."""


@config.command("check")
@CONFIG
@KAFKA
def check_config(config_file: Path | None, kafka: str | None) -> None:
    """Check the file, the variables, and that what they name is there."""
    found = load(config_file, overridden(os.environ, kafka))
    tls_context(found.config)
    try:
        model_directory(found.config.model.name)
    except NewsiftError as error:
        raise ConfigError(f"{found.origins['model.name']}: model.name: {error}") from error
    if file := found.config.matching.background:
        try:
            digest_of(file)
        except NewsiftError as error:
            raise ConfigError(f"{found.origins[KEY]}: {KEY}: {error}") from error
    changed = [
        f"{section}.{name}" for section, keys in KEYS.items() for name, key in keys.items()
        if getattr(getattr(found.config, section), name) != key.default
    ]  # fmt: skip
    said = f"not by default: {', '.join(changed)}" if changed else "every key has its default"
    click.echo(escaped(f"{found.file or 'the defaults'}: right; {said}"), err=True)


@config.command()
@CONFIG
@KAFKA
@ONE_JSON
@click.option("--template", is_flag=True, help="Print the defaults with what each key means.")
def show(config_file: Path | None, kafka: str | None, as_json: bool, template: bool) -> None:
    """Print every key with its value, and where the value comes from; never a password."""
    if template:
        click.echo(packaged(), nl=False)
        return
    found = load(config_file, overridden(os.environ, kafka))
    if as_json:
        values = as_values(found.config)
        file = None if found.file is None else str(found.file)
        click.echo(json.dumps({"file": file, "values": values, "origins": dict(found.origins)}))
        return
    click.echo(rendered(found), nl=False)
