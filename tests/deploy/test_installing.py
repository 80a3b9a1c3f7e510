"""What is installed from an index comes by its hash, and builds nothing on this machine."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = (ROOT / "Makefile", *sorted((ROOT / "deploy/image").glob("*.sh")))
INSTALL = re.compile(r"pip (?:install|sync) (?:[^\n]*\\\n)*[^\n]*")
OURS = ("--editable .", "/newsift-*.whl")  # the project itself, which has no hash
PREBUILT = ("--no-build ", "--only-binary :all:")


def installs() -> list[tuple[str, str]]:
    return [
        (file.name, " ".join(result.replace("\\\n", " ").split()) + " ")
        for file in FILES for result in INSTALL.findall(file.read_text("utf-8"))
        if not any(own in result for own in OURS)
    ]  # fmt: skip


@pytest.mark.parametrize(("file", "command"), installs())
def test_by_hash_and_without_a_build(file: str, command: str) -> None:
    assert "--require-hashes " in command, file
    assert any(word in command for word in PREBUILT), file


def test_they_are_found() -> None:
    assert {file for file, _ in installs()} >= {"Makefile", "tools.sh", "install.sh"}
