"""config.yaml, read strictly: two levels, no key twice, no surprise of YAML 1.1."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from encoder.support.files import read_regular
from worker.errors import ConfigError

LARGEST = 2**20  # bytes
LONGEST = 60  # characters of a key
TEMPLATE = "`newsift config show --template`"
NULLS = ("", "~", "null", "Null", "NULL")
TEXT = "tag:yaml.org,2002:str"  # what PyYAML's plainest loader takes every scalar for


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody wrote, and where."""

    value: Any
    origin: str


def read_file(path: Path) -> dict[str, dict[str, Given]]:
    """What a file sets, by section and key; nothing is known here of which keys there are."""
    root = _compose(path, _text(path))
    sections = _pairs(root, "", "sections such as kafka and topics") if root else {}
    return {
        section: {
            key: Given(_value(value, f"{section}.{key}"), _at(value))
            for key, value in _pairs(node, f"{section}.", f"the keys of {section}").items()
        }
        for section, node in sections.items()
    }


def _text(path: Path) -> str:
    try:
        return read_regular(path, LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start + 1}; convert it") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read ({reason}); check the path") from error


def _compose(path: Path, text: str) -> yaml.Node | None:
    """The document as PyYAML takes it apart, before anything in it is made or looked up."""
    try:
        loader = yaml.BaseLoader(text)
        loader.name = str(path)
        return loader.get_single_node()
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deep; sections hold keys, nothing more") from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        said = " ".join(str(getattr(error, "problem", None) or error).split())
        remedy = "indent with spaces" if "\\t" in said else f"compare with {TEMPLATE}"
        raise ConfigError(f"{path}{line}: not YAML: {said}; {remedy}") from error


def _pairs(node: yaml.Node, before: str, wanted: str) -> dict[str, yaml.Node]:
    """The values of a mapping by key; none where there is nothing."""
    if isinstance(node, yaml.ScalarNode) and _scalar(node, wanted) is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{_at(node)}: expected {wanted}, each with a colon")
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{_at(key)}: a key is a word; expected {wanted}")
        name = repr(key.value[:LONGEST])[1:-1]  # what is cut or changed so is unknown in any case
        if name in found:
            raise ConfigError(f"{_at(key)}: {before}{name}: given twice; keep one")
        found[name] = value
    return found


def _value(node: yaml.Node, name: str) -> str | list[str | None] | None:
    """The text of a value as it stands, or those of a list; what they mean their key decides."""
    if isinstance(node, yaml.SequenceNode):
        return [_scalar(item, name) for item in node.value]
    return _scalar(node, name)


def _scalar(node: yaml.Node, name: str) -> str | None:
    if not isinstance(node, yaml.ScalarNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
        raise ConfigError(f"{_at(node)}: {name}: {kind}; write one value")
    if node.tag != TEXT:
        raise ConfigError(f"{_at(node)}: {name}: the tag {node.tag!r} is not read; drop it")
    return None if node.style is None and node.value in NULLS else str(node.value)


def _at(node: yaml.Node) -> str:
    return f"{node.start_mark.name} line {node.start_mark.line + 1}"
