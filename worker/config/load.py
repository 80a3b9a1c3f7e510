"""Where the configuration comes from: the file, the environment, and what is wrong with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from encoder.support.files import read_regular
from worker.config import DEFAULTS, KINDS, RULES, SECTIONS, Config, Section, shown
from worker.config.file import Given, read_file
from worker.config.kinds import Kind
from worker.config.secret import Secret
from worker.errors import ConfigError

PREFIX = "NEWSIFT_"
KAFKA = "NEWSIFT_KAFKA"  # short for kafka.bootstrap_servers
DEFAULT = "default"
PASSWORD = "kafka.password"
LARGEST_SECRET = 4096  # bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, the file it was read from, and the origin of each value."""

    config: Config
    file: Path | None
    origins: Mapping[str, str]  # "section.key" → the file and line, the variable, or "default"


def load(path: Path | None, env: Mapping[str, str]) -> Loaded:
    """The configuration of a file and an environment; ConfigError names what is wrong."""
    file = path or find_file(env)
    given = _from_file(file) if file else {}
    given |= _from_env(env)
    origins = {
        f"{section}.{name}": given[f"{section}.{name}"].origin
        if f"{section}.{name}" in given else DEFAULT
        for section, rules in RULES.items() for name in rules
    }  # fmt: skip
    values: dict[str, Any] = {name: item.value for name, item in given.items()}
    _secret_from_file(values, origins)
    sections = {name: _build(name, cls, values, origins) for name, cls in SECTIONS.items()}
    return Loaded(Config(**sections), file, origins)  # type: ignore[arg-type]


def find_file(env: Mapping[str, str]) -> Path | None:
    """NEWSIFT_CONFIG, which must be there, else ./config.yaml, which may be missing."""
    if named := env.get("NEWSIFT_CONFIG"):
        return Path(named)
    return Path("config.yaml") if Path("config.yaml").exists() else None


def overridden(env: Mapping[str, str], servers: str | None) -> dict[str, str]:
    """The environment with an address from the command line, which comes before all else."""
    found = dict(env)
    if servers is not None:
        found.pop(variable_of("kafka.bootstrap_servers"), None)
        found[KAFKA] = servers
    return found


def _from_file(file: Path) -> dict[str, Given]:
    found = {}
    for section, keys in read_file(file).items():
        if section not in SECTIONS:
            said = f"unknown section; {_nearest_section(section)}"
            raise ConfigError(f"{file}: {section}: {said}")
        for key, given in keys.items():
            name = f"{section}.{key}"
            kind = _kind(section, key, given.origin)
            found[name] = _checked(name, _typed(name, kind, given, file), given.origin)
    return found


def _typed(name: str, kind: Kind, given: Given, file: Path) -> Any:
    if name == PASSWORD and given.value is not None:
        raise ConfigError(
            f"{given.origin}: {name}: a password has no place in this file; "
            f"set {PREFIX}KAFKA__PASSWORD, or kafka.password_file"
        )
    try:
        value = _at_home(kind.read(given.value))
    except ValueError as error:
        raise _refused(name, given.value, given.origin, str(error)) from error
    return file.parent / value if isinstance(value, Path) else value


def _from_env(env: Mapping[str, str]) -> dict[str, Given]:
    found = {}
    for variable in sorted(env):
        if not variable.startswith(PREFIX) or "__" not in variable:
            continue
        section, _, key = variable.removeprefix(PREFIX).partition("__")
        if section.lower() not in SECTIONS:
            said = _nearest_section(section.lower())
            raise ConfigError(f"{variable}: unknown section {section.lower()!r}; {said}")
        name = f"{section}.{key}".lower()
        if variable != variable_of(name):
            raise ConfigError(f"{variable}: written in capitals alone; use {variable_of(name)}")
        kind = _kind(section.lower(), key.lower(), variable)
        found[name] = _checked(name, _parsed(name, kind, env[variable], variable), variable)
    if short := env.get(KAFKA):
        _short(found, short)
    return found


def _short(found: dict[str, Given], servers: str) -> None:
    """NEWSIFT_KAFKA, which may not contradict the long form."""
    name = "kafka.bootstrap_servers"
    value = _checked(name, servers, KAFKA)
    if name in found and found[name].value != servers:
        raise ConfigError(
            f"{KAFKA} and {variable_of(name)} differ: {shown(servers)} and "
            f"{shown(found[name].value)}; unset one"
        )
    found[name] = value


def variable_of(name: str) -> str:
    """The environment variable that overrides a key."""
    return PREFIX + name.upper().replace(".", "__")


def _parsed(name: str, kind: Kind, text: str, variable: str) -> Any:
    try:
        return _at_home(kind.parse(text))
    except ValueError as error:
        raise _refused(name, text, variable, str(error)) from error


def _at_home(value: Any) -> Any:
    """The value, a path that begins with ~ as the folder that this means."""
    try:
        return value.expanduser() if isinstance(value, Path) else value
    except RuntimeError as error:
        raise ValueError("a path; there is no such user") from error


def _checked(name: str, value: Any, origin: str) -> Given:
    section, _, key = name.partition(".")
    rule = RULES[section][key]
    if value is not None and not rule.test(value):
        raise _refused(name, value, origin, rule.says)
    return Given(value, origin)


def _refused(name: str, value: Any, origin: str, wanted: str) -> ConfigError:
    section, _, key = name.partition(".")
    default = DEFAULTS[section][key]
    said = "the value" if name == PASSWORD else shown(value)
    usual = "" if default is None else f", or leave it out for {shown(default)}"
    return ConfigError(f"{origin}: {name}: {said} is refused; give {wanted}{usual}")


def _kind(section: str, key: str, origin: str) -> Kind:
    known = KINDS[section]
    if key in known:
        return known[key]
    raise ConfigError(f"{origin}: {section}.{key}: unknown key; {_nearest_key(section, key)}")


def _nearest_section(section: str) -> str:
    close = get_close_matches(section, SECTIONS, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"the sections are {', '.join(SECTIONS)}"


def _nearest_key(section: str, key: str) -> str:
    own = list(RULES[section])
    elsewhere = [other for other, rules in RULES.items() if key in rules]
    close = get_close_matches(key, own, n=1, cutoff=0.6)
    if close:
        return f"did you mean {section}.{close[0]}?"
    if elsewhere:
        return f"did you mean {elsewhere[0]}.{key}?"
    return f"the keys of {section} are {', '.join(own)}"


def _secret_from_file(values: dict[str, Any], origins: dict[str, str]) -> None:
    """Put what kafka.password_file holds in the place of the password."""
    path = values.get("kafka.password_file")
    if path is None:
        return
    origin = origins["kafka.password_file"]
    if values.get(PASSWORD) is not None:
        raise ConfigError(f"{origin}: kafka.password_file: {variable_of(PASSWORD)} is set too; "
                          "unset one of the two")  # fmt: skip
    try:
        text = read_regular(path, LARGEST_SECRET).decode("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "not UTF-8"
        raise ConfigError(f"{origin}: kafka.password_file: {shown(path)} cannot be read ({said}); "
                          "give a file with the password alone") from error  # fmt: skip
    if not text.isprintable() or not text:
        said = "holds more than a password" if text else "is empty"
        raise ConfigError(f"{origin}: kafka.password_file: {shown(path)} {said}; "
                          "give a file with the password alone")  # fmt: skip
    values[PASSWORD] = Secret(text)
    origins[PASSWORD] = f"{path}"


def _build(
    name: str, cls: type[Section], values: Mapping[str, Any], origins: Mapping[str, str]
) -> Section:
    own = {key: values[f"{name}.{key}"] for key in RULES[name] if f"{name}.{key}" in values}
    try:
        return cls(**own)
    except ConfigError as error:
        key = str(error).partition(":")[0]
        given = [origins[f"{name}.{k}"] for k in own if origins[f"{name}.{k}"] != DEFAULT]
        origin = origins[key] if origins[key] != DEFAULT else given[0]
        raise ConfigError(f"{origin}: {error}") from error
