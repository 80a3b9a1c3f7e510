"""Files of public repositories that train or judge models, unmodified."""

import os
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml

from encoder.errors import InputError, one_line

Form = Literal["lines", "table", "json", "pattern"]  # pattern: the first group of each match


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource:
    """Files of one repository at one commit, by kind of text or by crisis."""

    repo: Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+/[\w.-]+$")]
    commit: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
    licence: str
    form: Form
    files: dict[str, list[str]]  # `*` in a path matches anything
    fields: list[str | int] = field(default_factory=list)  # columns, or keys of JSON
    pattern: str = ""  # a regular expression; ^ and $ match at lines


def read_sources(file: Path) -> list[TextSource]:
    return msgspec.convert(yaml.safe_load(file.read_text("utf-8")), list[TextSource])


GITHUB = "https://github.com/"


class Clones:
    """A folder of bare clones, named OWNER+NAME; a missing one is fetched."""

    def __init__(self, folder: Path, home: str = GITHUB) -> None:
        self._folder, self._home = folder, home

    def read_all(self, source: TextSource, path: str) -> Iterator[tuple[str, bytes]]:
        """Every file that a path with `*` matches, with its own path."""
        clone = self._folder / source.repo.replace("/", "+")
        if not clone.is_dir():
            self._fetch(source, clone)
        archive = git(clone, "archive", source.commit, path)
        with tarfile.open(fileobj=BytesIO(archive)) as members:
            for member in members:
                if member.isfile() and (file := members.extractfile(member)):
                    yield member.name, file.read()

    def _fetch(self, source: TextSource, clone: Path) -> None:
        """Fetch only this commit; git loads a file when it is read, or all where `*` is used."""
        wide = any("*" in path for paths in source.files.values() for path in paths)
        temporary = clone.with_name(f".{clone.name}")
        temporary.mkdir(parents=True, exist_ok=True)
        git(temporary, "init", "--quiet", "--bare")
        git(temporary, "config", "remote.origin.url", f"{self._home}{source.repo}")
        git(
            temporary,
            "fetch",
            "--quiet",
            "--depth=1",
            *([] if wide else ["--filter=blob:none"]),
            "origin",
            source.commit,
        )
        temporary.rename(clone)


def git(clone: Path, *arguments: str) -> bytes:
    """The output of a git command on a bare clone."""
    command = ["git", f"--git-dir={clone}", *arguments]
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0"}
    try:
        result = subprocess.run(command, capture_output=True, check=False, env=environment)
    except OSError as error:
        raise InputError(f"git: cannot be started ({error.strerror}); install it") from error
    if result.returncode:
        why = one_line(result.stderr.decode("utf-8", "replace").strip())
        raise InputError(
            f"{clone}: git {arguments[0]} failed ({why}); delete the clone to fetch it again"
        )
    return result.stdout
