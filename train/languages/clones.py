"""Files of public repositories, each fetched once at its commit and kept in a bare clone."""

import os
import subprocess
from pathlib import Path

from encoder.errors import InputError, one_line
from train.languages.sources import Source

HOME = "https://github.com/"


class Clones:
    """A folder of bare clones, named OWNER+NAME; what is not there is fetched."""

    def __init__(self, folder: Path, home: str = HOME) -> None:
        self._folder, self._home = folder, home

    def read(self, source: Source, path: str) -> bytes:
        """One file as the commit of its source has it."""
        clone = self._folder / source.repo.replace("/", "+")
        if not clone.is_dir():
            self._fetch(source, clone)
        return git(clone, "show", f"{source.commit}:{path}")

    def _fetch(self, source: Source, clone: Path) -> None:
        """That commit alone; its files come when they are read."""
        part = clone.with_name(f".{clone.name}")
        part.mkdir(parents=True, exist_ok=True)
        git(part, "init", "--quiet", "--bare")
        git(part, "config", "remote.origin.url", f"{self._home}{source.repo}")
        git(part, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", source.commit)
        part.rename(clone)


def git(clone: Path, *said: str) -> bytes:
    """What git answers about a bare clone."""
    command, quiet = ["git", f"--git-dir={clone}", *said], os.environ | {"GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=quiet)
    except OSError as error:
        raise InputError(f"git: cannot be started ({error.strerror}); install it") from error
    if done.returncode:
        why = one_line(done.stderr.decode("utf-8", "replace").strip())
        raise InputError(
            f"{clone}: git {said[0]} failed ({why}); delete the clone to fetch it anew"
        )
    return done.stdout
