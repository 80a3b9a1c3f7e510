"""A strict reader of config.yaml and the environment: two levels, no repeated key, no YAML 1.1."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from encoder.support.files import read_regular
from worker.config import KEYS, SECTIONS, Config, Section
from worker.config.rules import Key, quote
from worker.config.secret import Secret, read_secret
from worker.errors import ConfigError

MAX_CONFIG_BYTES = 2**20
MAX_KEY_CHARS = 60
TEMPLATE = "`newsift config show --template`"
NULL_TEXTS = ("", "~", "null", "Null", "NULL")
STRING_TAG = "tag:yaml.org,2002:str"  # yaml.BaseLoader gives it to every scalar.


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value with the file and line, or the variable, that it comes from."""

    value: Any
    origin: str


def read_file(path: Path) -> dict[str, dict[str, SourcedValue]]:
    """Values by section and key; unknown keys are not refused here."""
    root = _compose(path, _read_text(path))
    sections = _pairs(root, "", "sections such as kafka and topics") if root else {}
    for name, node in sections.items():
        if name not in KEYS and isinstance(node, yaml.ScalarNode) and node.value:
            raise ConfigError(f"{_place(node)}: {name}: unknown key; {_key_in_section(name)}")
    return {
        section: {
            key: SourcedValue(_node_value(value, f"{section}.{key}"), _place(value))
            for key, value in _pairs(node, f"{section}.", f"the keys of {section}").items()
        }
        for section, node in sections.items()
    }


def _read_text(path: Path) -> str:
    try:
        return read_regular(path, MAX_CONFIG_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start + 1}; convert it") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read ({reason}); check the path") from error


def _compose(path: Path, text: str) -> yaml.Node | None:
    """The YAML nodes, before any value is constructed."""
    try:
        loader = yaml.BaseLoader(text)
        loader.name = str(path)
        return loader.get_single_node()
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deep; sections hold keys, nothing more") from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        remedy = "indent with spaces" if "\\t" in problem else f"compare with {TEMPLATE}"
        raise ConfigError(f"{path}{line}: not YAML: {problem}; {remedy}") from error


def _pairs(node: yaml.Node, before: str, keys: str) -> dict[str, yaml.Node]:
    """Empty for an empty node."""
    if isinstance(node, yaml.ScalarNode) and _scalar(node, keys) is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{_place(node)}: expected {keys}, each with a colon")
    pairs: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{_place(key)}: a key is a word; expected {keys}")
        name = repr(key.value[:MAX_KEY_CHARS])[1:-1]  # A longer key is unknown in any case.
        if name in pairs:
            raise ConfigError(f"{_place(key)}: {before}{name}: given twice; keep one")
        pairs[name] = value
    return pairs


def _node_value(node: yaml.Node, name: str) -> str | list[str | None] | None:
    """Text, or a list of texts; the key's type decides what they mean."""
    if isinstance(node, yaml.SequenceNode):
        return [_scalar(item, name) for item in node.value]
    return _scalar(node, name)


def _scalar(node: yaml.Node, name: str) -> str | None:
    if not isinstance(node, yaml.ScalarNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
        raise ConfigError(f"{_place(node)}: {name}: {kind}; write one value")
    if node.tag != STRING_TAG:
        raise ConfigError(f"{_place(node)}: {name}: the tag {node.tag!r} is not read; drop it")
    return None if node.style is None and node.value in NULL_TEXTS else str(node.value)


def _place(node: yaml.Node) -> str:
    return f"{node.start_mark.name} line {node.start_mark.line + 1}"


VARIABLE_PREFIX = "NEWSIFT_"
SERVERS_VARIABLE = "NEWSIFT_KAFKA"
SERVERS_KEY = "kafka.bootstrap_servers"
SECRET_KEYS = ("kafka.password", "desk.token")  # KEY_file may name a file with the secret.
DEFAULT_ORIGIN = "default"
GONE_KEYS = {  # and what is in their place
    "limits.batch_bytes": "the broker's max.message.bytes bounds a batch of records",
    "limits.rejected_bytes": "the broker's max.message.bytes bounds what one batch may reject",
}


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    config: Config
    file: Path | None
    origins: Mapping[str, str]  # "section.key" → the file and line, the variable, or "default"


def load(path: Path | None, env: Mapping[str, str]) -> LoadedConfig:
    """Read config.yaml (NEWSIFT_CONFIG, ./config.yaml, else the defaults) and the environment."""
    file = path or find_file(env)
    values = _from_file(file) if file else {}
    values |= _from_env(env)
    values |= _from_secret_files(values)
    sections: dict[str, Any] = {
        name: _make_section(cls, name, values) for name, cls in SECTIONS.items()
    }
    names = [f"{section}.{key}" for section, keys in KEYS.items() for key in keys]
    origins = {name: values[name].origin if name in values else DEFAULT_ORIGIN for name in names}
    return LoadedConfig(Config(**sections), file, origins)


def load_config(path: Path | None = None, env: Mapping[str, str] = os.environ) -> Config:
    """As `load`, for whoever need not know where a value comes from."""
    return load(path, env).config


def find_file(env: Mapping[str, str]) -> Path | None:
    """NEWSIFT_CONFIG, which must exist, else ./config.yaml, which may be missing."""
    if path := env.get("NEWSIFT_CONFIG"):
        return Path(path)
    return Path("config.yaml") if Path("config.yaml").exists() else None


def with_servers(env: Mapping[str, str], servers: str | None) -> dict[str, str]:
    """The environment with an address from the command line, which takes precedence."""
    environment = dict(env)
    if servers == "":
        raise ConfigError("--kafka: empty; give host:port, or leave it out")
    if servers is not None:
        environment.pop(variable_name(SERVERS_KEY), None)
        environment[SERVERS_VARIABLE] = servers
    return environment


def variable_name(name: str) -> str:
    return VARIABLE_PREFIX + name.upper().replace(".", "__")


def _from_file(file: Path) -> dict[str, SourcedValue]:
    values = {}
    for section, keys in read_file(file).items():
        _refuse_unknown_section(section, str(file))
        for name, content in keys.items():
            full, key = f"{section}.{name}", _find_key(section, name, content.origin)
            if key.kind is Secret and content.value is not None:
                raise ConfigError(
                    f"{content.origin}: {full}: a {name} has no place in this file; "
                    f"set {variable_name(full)}, or {full}_file"
                )
            values[full] = _convert(full, key, content, file.parent)
    return values


def _from_env(env: Mapping[str, str]) -> dict[str, SourcedValue]:
    values = {}
    for variable in sorted(env):
        if not variable.startswith(VARIABLE_PREFIX) or "__" not in variable:
            continue
        section, _, name = variable.removeprefix(VARIABLE_PREFIX).lower().partition("__")
        full, key = f"{section}.{name}", _find_key(section, name, variable)
        if variable != variable_name(full):
            raise ConfigError(f"{variable}: written in capitals alone; use {variable_name(full)}")
        content: str | list[str | None] | None = env[variable]
        if key.rule.listed and env[variable].startswith("["):  # as in the file
            node = _compose(Path(variable), env[variable])
            content = _node_value(node, full) if node else None
        values[full] = _convert(full, key, SourcedValue(content, variable))
    short = env.get(SERVERS_VARIABLE)
    if (
        short
        and values.setdefault(SERVERS_KEY, SourcedValue(short, SERVERS_VARIABLE)).value != short
    ):
        raise ConfigError(
            f"{SERVERS_VARIABLE} and {variable_name(SERVERS_KEY)} differ: {quote(short)} and "
            f"{quote(values[SERVERS_KEY].value)}; unset one"
        )
    return values


def _convert(name: str, key: Key, entry: SourcedValue, folder: Path = Path()) -> SourcedValue:
    """Converts a value to the type of its key; a path is relative to the folder."""
    text = entry.value
    if isinstance(text, list):
        if not key.rule.listed:
            raise ConfigError(f"{entry.origin}: {name}: a list; give {key.requirement}")
        text = ",".join(item or "" for item in text)
    try:
        value = key.read(text)
    except (ValueError, RuntimeError) as error:  # RuntimeError: ~NAME without such a user
        raise ConfigError(f"{entry.origin}: {name}: {key.refusal(entry.value)}") from error
    return SourcedValue(folder / value if isinstance(value, Path) else value, entry.origin)


def _key_in_section(name: str) -> str:
    """The remedy for a key that stands in no section."""
    section_of = {key: section for section, keys in KEYS.items() for key in keys}
    close = get_close_matches(name, section_of, n=1)
    if not close:
        return f"keys stand in sections: {', '.join(KEYS)}"
    return f"did you mean {section_of[close[0]]}.{close[0]}?"


def _refuse_unknown_section(section: str, origin: str) -> None:
    if section not in KEYS:
        close = get_close_matches(section, KEYS, n=1, cutoff=0.5)
        remedy = f"did you mean {close[0]}?" if close else f"the sections are {', '.join(KEYS)}"
        raise ConfigError(f"{origin}: {section}: unknown section; {remedy}")


def _find_key(section: str, name: str, origin: str) -> Key:
    """Refuses an unknown key and suggests the nearest."""
    _refuse_unknown_section(section, origin)
    section_keys = KEYS[section]
    if name in section_keys:
        return section_keys[name]
    if replacement := GONE_KEYS.get(f"{section}.{name}"):
        raise ConfigError(f"{origin}: {section}.{name}: gone, leave it out; {replacement}")
    suggestions = [f"{section}.{close}" for close in get_close_matches(name, section_keys, n=1)]
    suggestions += [f"{other}.{name}" for other, keys in KEYS.items() if name in keys]
    remedy = (
        f"did you mean {suggestions[0]}?"
        if suggestions
        else f"the keys of {section} are {', '.join(section_keys)}"
    )
    raise ConfigError(f"{origin}: {section}.{name}: unknown key; {remedy}")


def _make_section(cls: type[Section], section: str, values: Mapping[str, SourcedValue]) -> Section:
    """An error names the origin of a value that contradicts another."""
    section_values = {
        key: values[f"{section}.{key}"] for key in KEYS[section] if f"{section}.{key}" in values
    }
    try:
        return cls(**{key: item.value for key, item in section_values.items()})
    except ConfigError as error:
        key = str(error).partition(":")[0]
        source = values.get(key) or next(iter(section_values.values()))
        raise ConfigError(f"{source.origin}: {error}") from error


def _from_secret_files(values: Mapping[str, SourcedValue]) -> dict[str, SourcedValue]:
    secrets = {}
    for secret in SECRET_KEYS:
        path_value = values.get(f"{secret}_file")
        if path_value is None or path_value.value is None:
            continue
        where = f"{path_value.origin}: {secret}_file"
        if secret in values and values[secret].value is not None:
            raise ConfigError(f"{where}: {variable_name(secret)} is set too; unset one of the two")
        secrets[secret] = SourcedValue(read_secret(path_value.value, where), str(path_value.value))
    return secrets
