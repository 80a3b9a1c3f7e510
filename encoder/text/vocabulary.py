"""Vocabularies: convert a word to token ids, by WordPiece or as a whole word."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

from encoder.errors import InputError
from encoder.support.letters import fold
from encoder.text.scripts import (
    JOINED,
    RUN,
    ScriptPart,
    fold_scripts,
    pairs,
    split_scripts,
    stem,
)
from encoder.text.split import split_words

WORD_CHARS = 100


def number_entries(lines: Sequence[str]) -> dict[str, int]:
    """Return the id of every entry; raise InputError for an empty or duplicate one."""
    ids: dict[str, int] = {}
    for i, entry in enumerate(lines):
        if not entry or "\n" in entry or entry in ids:
            fault = "appears twice" if entry in ids else "is not a single line of text"
            raise InputError(f"vocabulary line {i + 1}: {entry!r} {fault}; use an unedited file")
        ids[entry] = i
    if not ids:
        raise InputError("vocabulary: no entries; name a file with one entry per line")
    return ids


class Vocabulary(ABC):
    kind: ClassVar[str]
    unknown: int | None  # the id of an unknown word, if the vocabulary has one

    def __init__(self, ids: dict[str, int]) -> None:
        self._ids = ids

    @classmethod
    def from_lines(cls, lines: Sequence[str]) -> Self:
        """Create a vocabulary from one entry per line; the first has id 0."""
        return cls(number_entries(lines))

    def lines(self) -> list[str]:
        """Return the entries in the order of their ids, as in a vocabulary file."""
        return list(self._ids)

    @property
    def size(self) -> int:
        return len(self._ids)

    def split(self, text: str, run_chars: int | None = None) -> Iterator[str | ScriptPart]:
        """Split a text into words; a `str` gives both the token ids and the slot.

        Runs without spaces are cut at `run_chars`.
        """
        return iter(split_words(text))

    @abstractmethod
    def pieces(self, word: str) -> tuple[int, ...]:
        """The token ids of one word."""


class WordPiece(Vocabulary):
    """BERT's uncased WordPiece: longest match first, `##` marks a continuation."""

    kind = "wordpiece"
    unknown: int

    def __init__(self, ids: dict[str, int]) -> None:
        if "[UNK]" not in ids:
            raise InputError("vocabulary: no [UNK] entry; use the vocab.txt of a BERT model")
        super().__init__(ids)
        self.unknown = ids["[UNK]"]
        self._tails = {entry[2:]: i for entry, i in ids.items() if entry[:2] == "##" != entry}
        self._longest = max(map(len, ids))

    def pieces(self, word: str) -> tuple[int, ...]:
        """Return the ids of a word's pieces; [UNK] if it is too long or does not split."""
        folded = self.normalise(word)
        whole = self._ids.get(folded)
        if whole is not None and len(folded) <= WORD_CHARS:
            return (whole,)
        return self._greedy(folded) if folded else ()

    def normalise(self, word: str) -> str:
        """Normalise a word to the form of the entries."""
        return fold(word)

    def _greedy(self, word: str) -> tuple[int, ...]:
        ids: list[int] = []
        entries, start = self._ids, 0
        while start < len(word) <= WORD_CHARS:
            for end in range(min(len(word), start + self._longest), start, -1):
                entry = entries.get(word[start:end])
                if entry is not None:
                    break
            else:
                break
            ids.append(entry)
            entries, start = self._tails, end
        return tuple(ids) if start == len(word) else (self.unknown,)


class Scripts(WordPiece):
    """Word pieces of many scripts; a run without spaces is split into the longest entries."""

    kind = "scripts"

    def __init__(self, ids: dict[str, int]) -> None:
        super().__init__(ids)
        self._longest_run = max((len(entry) for entry in ids if JOINED.search(entry)), default=1)

    def normalise(self, word: str) -> str:
        return fold_scripts(word)

    def split(self, text: str, run_chars: int | None = None) -> Iterator[str | ScriptPart]:
        """A run without spaces gives its pieces and its bigrams."""
        for word in split_scripts(text):
            if RUN.fullmatch(word):
                run = word[:run_chars]
                yield from (ScriptPart(piece, piece, "") for piece in self.cut(run))
                yield from (ScriptPart(pair, "", pair) for pair in pairs(run))
            else:
                yield word if word.isascii() or len(word) > WORD_CHARS else self._part(word)

    def _part(self, word: str) -> str | ScriptPart:
        short = stem(self.normalise(word))
        return word if short == fold(word) else ScriptPart(word, word, short)

    def cut(self, run: str) -> list[str]:
        """Split a run greedily into the longest entries, or single characters if there is none."""
        run, pieces, start = self.normalise(run), [], 0
        while start < len(run):
            end = min(len(run), start + self._longest_run)
            while end > start + 1 and run[start:end] not in self._ids:
                end -= 1
            pieces.append(run[start:end])
            start = end
        return pieces


class WordLevel(Vocabulary):
    """Whole words of pre-trained vectors, looked up as written, then lower-case, then folded.

    An unknown word has the id of `[UNK]` or `<unk>` if there is such an entry, else no id.
    """

    kind = "words"

    def __init__(self, ids: dict[str, int]) -> None:
        super().__init__(ids)
        self.unknown = ids.get("[UNK]", ids.get("<unk>"))

    def pieces(self, word: str) -> tuple[int, ...]:
        for form in (word, word.lower(), fold(word)):
            entry = self._ids.get(form)
            if entry is not None:
                return (entry,)
        return () if self.unknown is None or not fold(word) else (self.unknown,)


VOCABULARIES: dict[str, type[WordPiece] | type[WordLevel]] = {
    kind.kind: kind for kind in (WordPiece, Scripts, WordLevel)
}
