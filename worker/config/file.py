"""config.yaml, read strictly: two levels, no key twice, no list, no surprise of YAML 1.1."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from encoder.support.files import read_regular
from worker.config.kinds import INTEGER, NUMBER, Scalar, scalar
from worker.errors import ConfigError

LARGEST = 2**20  # bytes
LONGEST = 60  # characters of a key
TAG = "tag:yaml.org,2002:"


class Yaml12(yaml.SafeLoader):
    """A loader that knows the plain scalars of YAML 1.2 alone: `no` and `1:30` are texts."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own name


Yaml12.add_implicit_resolver(f"{TAG}null", re.compile(r"(?:~|null|Null|NULL|)\Z"), None)
Yaml12.add_implicit_resolver(
    f"{TAG}bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), None
)
for kind, pattern in (("int", INTEGER), ("float", NUMBER)):
    whole = re.compile(rf"(?:{pattern.pattern})\Z", re.IGNORECASE)
    Yaml12.add_implicit_resolver(f"{TAG}{kind}", whole, None)


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody wrote, and where."""

    value: Any
    origin: str


def read_file(path: Path) -> dict[str, dict[str, Given]]:
    """What a file sets, by section and key; nothing is known here of which keys there are."""
    root = _compose(path, _text(path))
    if root is None or _is_null(root):
        return {}
    found: dict[str, dict[str, Given]] = {}
    for section, node in _pairs(path, root, "sections such as kafka and topics"):
        if section in found:
            raise ConfigError(f"{_at(path, node)}: {section}: given twice; join the two")
        found[section] = {} if _is_null(node) else _section(path, section, node)
    return found


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == f"{TAG}null"


def _section(path: Path, section: str, node: yaml.Node) -> dict[str, Given]:
    found: dict[str, Given] = {}
    for key, value in _pairs(path, node, f"the keys of {section}"):
        if key in found:
            raise ConfigError(f"{_at(path, value)}: {section}.{key}: given twice; keep one")
        found[key] = Given(_scalar(path, f"{section}.{key}", value), _at(path, value))
    return found


def _text(path: Path) -> str:
    try:
        return read_regular(path, LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start + 1}; convert it") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read ({reason}); check the path") from error


def _compose(path: Path, text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=Yaml12)
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deep; sections hold keys, nothing more") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark else ""
        said = " ".join(f"{error.context or ''} {error.problem or ''}".split())
        raise ConfigError(f"{path}{line}: not YAML: {said}{_tab(error)}") from error
    except (yaml.YAMLError, ValueError) as error:
        said = " ".join(str(error).split())
        raise ConfigError(f"{path}: not YAML: {said}; write it anew") from error


def _tab(error: yaml.MarkedYAMLError) -> str:
    tab = "\\t" in str(error.problem)
    return "; indent with spaces" if tab else "; compare with `newsift config show --template`"


def _pairs(path: Path, node: yaml.Node, wanted: str) -> list[tuple[str, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{_at(path, node)}: expected {wanted}, each with a colon")
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{_at(path, key)}: a key is a word; expected {wanted}")
    return [(_name(key.value), value) for key, value in node.value]


def _name(text: str) -> str:
    """A key as an error can show it: what is cut or changed here is unknown in any case."""
    return "".join(char if char.isprintable() else "?" for char in text[:LONGEST])


def _scalar(path: Path, name: str, node: yaml.Node) -> Scalar:
    if isinstance(node, yaml.SequenceNode):
        raise ConfigError(f"{_at(path, node)}: {name}: a list; write one value, as text")
    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError(f"{_at(path, node)}: {name}: a mapping; write one value")
    if node.tag == f"{TAG}str":
        return str(node.value)
    value = scalar(node.value)
    kinds = {"null": type(None), "bool": bool, "int": int, "float": float}
    kind = kinds.get(node.tag.removeprefix(TAG))
    if kind is None or type(value) is not kind:
        raise ConfigError(f"{_at(path, node)}: {name}: the tag {node.tag!r} is not read; drop it")
    return value


def _at(path: Path, node: yaml.Node) -> str:
    return f"{path} line {node.start_mark.line + 1}"
