"""`newsift check`: the configuration and the topics, before a worker starts."""

from pathlib import Path

import click

from newsift.cli.config import check_config
from newsift.cli.options import CONFIG, KAFKA
from newsift.cli.topics import check as check_topics


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
