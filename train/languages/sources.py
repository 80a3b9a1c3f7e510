"""The files of public repositories that teach and judge the multilingual model, as they ship."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml

TEXTS = Path(__file__).with_name("sources.yaml")

Use = Literal["posts", "sentences", "parallel", "originals", "topics", "crises"]
Form = Literal["lines", "words", "conllu", "table", "json"]  # words: a sentence's, apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
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


def read_sources(file: Path = TEXTS) -> list[Source]:
    """All sources, in the order of the file."""
    return msgspec.convert(yaml.safe_load(file.read_text("utf-8")), list[Source])
