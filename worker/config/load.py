"""Where the configuration comes from: the file, the environment, and what is wrong with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from worker.config import KEYS, SECTIONS, Config, Section
from worker.config.file import Given, read_file
from worker.config.rules import Key, quoted
from worker.config.secret import Secret, read_secret
from worker.errors import ConfigError

PREFIX = "NEWSIFT_"
SHORT = "NEWSIFT_KAFKA"  # for this key:
SERVERS = "kafka.bootstrap_servers"
SECRETS = ("kafka.password", "desk.token")  # each may stand in the file that NAME_file names
DEFAULT = "default"


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
    given |= _from_secret_files(given)
    sections: dict[str, Any] = {name: _made(cls, name, given) for name, cls in SECTIONS.items()}
    names = [f"{section}.{key}" for section, keys in KEYS.items() for key in keys]
    origins = {name: given[name].origin if name in given else DEFAULT for name in names}
    return Loaded(Config(**sections), file, origins)


def find_file(env: Mapping[str, str]) -> Path | None:
    """NEWSIFT_CONFIG, which must be there, else ./config.yaml, which may be missing."""
    if named := env.get("NEWSIFT_CONFIG"):
        return Path(named)
    return Path("config.yaml") if Path("config.yaml").exists() else None


def overridden(env: Mapping[str, str], servers: str | None) -> dict[str, str]:
    """The environment with an address from the command line, which comes before all else."""
    found = dict(env)
    if servers is not None:
        found.pop(variable_of(SERVERS), None)
        found[SHORT] = servers
    return found


def variable_of(name: str) -> str:
    """The environment variable that overrides a key."""
    return PREFIX + name.upper().replace(".", "__")


def _from_file(file: Path) -> dict[str, Given]:
    found = {}
    for section, keys in read_file(file).items():
        _refuse_unknown_section(section, str(file))
        for name, given in keys.items():
            full, key = f"{section}.{name}", _key(section, name, given.origin)
            if key.kind is Secret and given.value is not None:
                raise ConfigError(
                    f"{given.origin}: {full}: a {name} has no place in this file; "
                    f"set {variable_of(full)}, or {full}_file"
                )
            found[full] = _read(full, key, given, file.parent)
    return found


def _from_env(env: Mapping[str, str]) -> dict[str, Given]:
    found = {}
    for variable in sorted(env):
        if not variable.startswith(PREFIX) or "__" not in variable:
            continue
        section, _, name = variable.removeprefix(PREFIX).lower().partition("__")
        full, key = f"{section}.{name}", _key(section, name, variable)
        if variable != variable_of(full):
            raise ConfigError(f"{variable}: written in capitals alone; use {variable_of(full)}")
        found[full] = _read(full, key, Given(env[variable], variable))
    short = env.get(SHORT)
    if short and found.setdefault(SERVERS, Given(short, SHORT)).value != short:
        raise ConfigError(
            f"{SHORT} and {variable_of(SERVERS)} differ: {quoted(short)} and "
            f"{quoted(found[SERVERS].value)}; unset one"
        )
    return found


def _read(name: str, key: Key, given: Given, folder: Path = Path()) -> Given:
    """What was given as a value of its key's type; a path counts from the folder."""
    text = given.value
    if isinstance(text, list):
        if not key.rule.listed:
            raise ConfigError(f"{given.origin}: {name}: a list; write one value")
        text = ",".join(item or "" for item in text)
    try:
        value = key.read(text)
    except (ValueError, RuntimeError) as error:  # the latter where ~somebody is nobody
        raise ConfigError(f"{given.origin}: {name}: {key.refusal(given.value)}") from error
    return Given(folder / value if isinstance(value, Path) else value, given.origin)


def _refuse_unknown_section(section: str, origin: str) -> None:
    if section not in KEYS:
        close = get_close_matches(section, KEYS, n=1, cutoff=0.5)
        remedy = f"did you mean {close[0]}?" if close else f"the sections are {', '.join(KEYS)}"
        raise ConfigError(f"{origin}: {section}: unknown section; {remedy}")


def _key(section: str, name: str, origin: str) -> Key:
    """The key of this name; where there is none, the error names the nearest."""
    _refuse_unknown_section(section, origin)
    own = KEYS[section]
    if name in own:
        return own[name]
    near = [f"{section}.{close}" for close in get_close_matches(name, own, n=1)]
    near += [f"{other}.{name}" for other, keys in KEYS.items() if name in keys]
    remedy = f"did you mean {near[0]}?" if near else f"the keys of {section} are {', '.join(own)}"
    raise ConfigError(f"{origin}: {section}.{name}: unknown key; {remedy}")


def _made(cls: type[Section], section: str, given: Mapping[str, Given]) -> Section:
    """The section of what was given; what does not go together is told with where it stands."""
    own = {key: given[f"{section}.{key}"] for key in KEYS[section] if f"{section}.{key}" in given}
    try:
        return cls(**{key: item.value for key, item in own.items()})
    except ConfigError as error:
        key = str(error).partition(":")[0]
        source = given.get(key) or next(iter(own.values()))
        raise ConfigError(f"{source.origin}: {error}") from error


def _from_secret_files(given: Mapping[str, Given]) -> dict[str, Given]:
    """The secrets that the files hold which are named for them."""
    found = {}
    for secret in SECRETS:
        named = given.get(f"{secret}_file")
        if named is None or named.value is None:
            continue
        where = f"{named.origin}: {secret}_file"
        if secret in given and given[secret].value is not None:
            raise ConfigError(f"{where}: {variable_of(secret)} is set too; unset one of the two")
        found[secret] = Given(read_secret(named.value, where), str(named.value))
    return found
