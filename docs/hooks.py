"""Pages of the site that are made when it is built: from the code, and from files elsewhere.

mkdocs calls these functions by their names.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from newsift.cli import GROUPS, cli

ROOT = Path(__file__).parents[1]
COPIES = {
    "index.md": "README.md",
    "deployment.md": "deploy/README.md",
    "security.md": "SECURITY.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
# Links between the checkout's files, as links between pages.
LINKS = {
    **{f"]({source})": f"]({page})" for page, source in COPIES.items()},
    **{f"](../{source})": f"]({page})" for page, source in COPIES.items()},
    "](docs/": "](",
    "](../docs/": "](",
    '="docs/': '="',
    "[a notebook](from-a-csv.ipynb)": "a notebook in the checkout",
    "[LICENSE](LICENSE)": "LICENSE",
}
# What the theme would load from another host, to search pages that were opened as files.
SHIM, OWN_SHIM = "https://unpkg.com/iframe-worker/shim", "javascripts/worker.js"
PUBLIC = ("newsift", "encoder", "newsift.statistics")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages: dict[str, Callable[[], Iterator[str]]] = {
        "reference/options.md": options_page,
        "reference/records.md": records_page,
        "reference/python.md": python_page,
    }
    for path, make in pages.items():
        files.append(File.generated(config, path, content="\n".join(make())))
    for path, source in COPIES.items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    for link, page in LINKS.items():
        markdown = markdown.replace(link, page)
    return markdown


def on_post_page(output: str, page: Page, **_: Any) -> str:
    return output.replace(SHIM, "../" * page.url.count("/") + OWN_SHIM)


def on_post_template(output: str, **_: Any) -> str:
    return output.replace(SHIM, OWN_SHIM)


def options_page() -> Iterator[str]:
    """Every command with its options, as click has them."""
    yield "# Options of each command\n"
    context = click.Context(cli, info_name="newsift")
    for heading, names in GROUPS.items():
        yield f"\n## {heading}\n"
        for name in names:
            command = cli.get_command(context, name)
            assert command is not None
            yield from _command(command, click.Context(command, context, name))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"\n### {context.command_path}\n"
    yield f"```text\n{context.command_path} {usage}\n```\n"
    yield inspect.cleandoc(command.help or "").replace("<", "&lt;") + "\n"
    if command.epilog:
        yield "```console\n" + "\n".join(_examples(command.epilog)) + "\n```\n"
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    rows = [row for each in options if (row := each.get_help_record(context))]
    if rows:
        yield "| option | |\n|---|---|"
        yield from (f"| `{_cell(option)}` | {_cell(text)} |" for option, text in rows)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, context, name))


def _examples(epilog: str) -> Iterator[str]:
    return (line.strip() for line in epilog.splitlines() if line.strip().startswith("$"))


def records_page() -> Iterator[str]:
    """The JSON Schemas of deploy/schemas as tables."""
    yield "# Records\n\n`newsift schemas` prints these JSON Schemas, and AsyncAPI.\n"
    for file in sorted((ROOT / "deploy" / "schemas").glob("*.json")):
        schema = json.loads(file.read_text("utf-8"))
        yield f"\n## {schema['title']}\n\n{schema.get('description', '')}\n"
        yield from _properties(schema, schema)
        for name, part in schema.get("$defs", {}).items():
            if "properties" in part:
                yield f"\n### {schema['title']}: {name}\n\n{part.get('description', '')}\n"
                yield from _properties(part, schema)


def _properties(part: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    required = part.get("required", ())
    yield "| key | type | |\n|---|---|---|"
    for name, value in part.get("properties", {}).items():
        target = schema.get("$defs", {}).get(value.get("$ref", "").rpartition("/")[2], {})
        merged = target | value
        kind = merged.get("type", merged.get("const", ""))
        kinds = " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
        text = value.get("description") or target.get("description", "")
        yield f"| `{name}`{'' if name in required else '?'} | {kinds} | {_cell(text)} |"


def python_page() -> Iterator[str]:
    """The public interface, with the docstrings of the code."""
    yield "# Python interface\n"
    for name in PUBLIC:
        module = import_module(name)
        yield f"\n## {name}\n\n{inspect.getdoc(module) or ''}\n"
        for each in module.__all__:
            yield from _object(name, each, module)


def _object(module_name: str, name: str, module: ModuleType) -> Iterator[str]:
    value = getattr(module, name)
    yield f"\n### {module_name}.{name}\n"
    if inspect.isclass(value) and issubclass(value, Exception):
        yield inspect.getdoc(value) or ""
        return
    yield f"```python\n{name}{_signature(value)}\n```\n"
    yield inspect.getdoc(value) or ""
    for method, member in vars(value).items() if inspect.isclass(value) else ():
        function = getattr(member, "__func__", member)
        if not method.startswith("_") and inspect.isfunction(function):
            yield f"\n```python\n{name}.{method}{_signature(function)}\n```\n"
            yield inspect.getdoc(function) or ""


def _signature(value: Any) -> str:
    return re.sub(r"\b(\w+\.)+(?=[A-Z])", "", str(inspect.signature(value)))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
