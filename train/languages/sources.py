"""The files of public repositories that teach and judge the multilingual model, as they ship."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml

from encoder.errors import InputError, one_line

TEXTS = Path(__file__).with_name("sources.yaml")

Use = Literal["posts", "sentences", "parallel", "originals", "topics", "crises"]
Form = Literal["lines", "words", "conllu", "table", "json"]  # words: a sentence's, apart


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource:
    """Files of one repository at one commit, by language or crisis; a parallel one goes in twos."""

    repo: Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+/[\w.-]+$")]
    commit: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
    licence: str
    use: Use
    form: Form
    files: dict[str, list[str | tuple[str, str]]]
    fields: list[str | int] = field(default_factory=list)  # columns, or keys of JSON
    delimiter: str = ""  # of a table; by its file's ending if not given
    quote: str = '"'

    def paths(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each language with a file of it, or with that and its English one."""
        for language, some in self.files.items():
            yield from ((language, (path,) if isinstance(path, str) else path) for path in some)


def read_sources(file: Path = TEXTS) -> list[TextSource]:
    return msgspec.convert(yaml.safe_load(file.read_text("utf-8")), list[TextSource])


HOME = "https://github.com/"


class Clones:
    """A folder of bare clones, named OWNER+NAME; what is not there is fetched."""

    def __init__(self, folder: Path, home: str = HOME) -> None:
        self._folder, self._home = folder, home

    def read(self, source: TextSource, path: str) -> bytes:
        """One file as the commit of its source has it."""
        clone = self._folder / source.repo.replace("/", "+")
        if not clone.is_dir():
            self._fetch(source, clone)
        return git(clone, "show", f"{source.commit}:{path}")

    def _fetch(self, source: TextSource, clone: Path) -> None:
        """That commit alone; its files come when they are read."""
        part = clone.with_name(f".{clone.name}")
        part.mkdir(parents=True, exist_ok=True)
        git(part, "init", "--quiet", "--bare")
        git(part, "config", "remote.origin.url", f"{self._home}{source.repo}")
        git(part, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", source.commit)
        part.rename(clone)


def git(clone: Path, *arguments: str) -> bytes:
    """What git answers about a bare clone."""
    command = ["git", f"--git-dir={clone}", *arguments]
    quiet = os.environ | {"GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=quiet)
    except OSError as error:
        raise InputError(f"git: cannot be started ({error.strerror}); install it") from error
    if done.returncode:
        why = one_line(done.stderr.decode("utf-8", "replace").strip())
        raise InputError(
            f"{clone}: git {arguments[0]} failed ({why}); delete the clone to fetch it again"
        )
    return done.stdout
