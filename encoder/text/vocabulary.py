"""Vocabularies: how a word becomes token ids, by WordPiece or as a whole."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
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


def numbered(lines: Sequence[str]) -> dict[str, int]:
    """The id of every entry; an empty or doubled one is refused, as ids would be ambiguous."""
    ids: dict[str, int] = {}
    for i, entry in enumerate(lines):
        if not entry or "\n" in entry or entry in ids:
            fault = "stands there twice" if entry in ids else "is no single line of text"
            raise InputError(f"vocabulary line {i + 1}: {entry!r} {fault}; use an unedited file")
        ids[entry] = i
    if not ids:
        raise InputError("vocabulary: no entries; name a file with one entry per line")
    return ids


class Vocabulary(ABC):
    """What the tokenizer asks of a vocabulary: the id of each entry."""

    kind: ClassVar[str]
    unknown: int | None  # the id that stands for what it lacks, if it has one

    def __init__(self, ids: dict[str, int]) -> None:
        self._ids = ids

    @classmethod
    def from_lines(cls, lines: Sequence[str]) -> Self:
        """The vocabulary whose entries stand in these lines, the first with id 0."""
        return cls(numbered(lines))

    def lines(self) -> list[str]:
        """The entries by id, as a vocabulary file holds them."""
        return list(self._ids)

    @property
    def size(self) -> int:
        """How many ids there are."""
        return len(self._ids)

    def split(self, text: str) -> Sequence[str | ScriptPart]:
        """The words of a text; of a plain one both ids and slot are made of all its letters."""
        return split_words(text)

    @abstractmethod
    def pieces(self, word: str) -> tuple[int, ...]:
        """The ids of one word of the split."""


class WordPiece(Vocabulary):
    """BERT's uncased WordPiece: the longest known piece first, `##` before those that continue."""

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
        """The ids of a word's pieces; [UNK] alone if it is over-long or no pieces make it up."""
        folded = self.folded(word)
        whole = self._ids.get(folded)
        if whole is not None and len(folded) <= WORD_CHARS:
            return (whole,)
        return self._greedy(folded) if folded else ()

    def folded(self, word: str) -> str:
        """A word as the entries are written."""
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
    """Word pieces of many scripts; where no spaces stand, the longest entries cut a run."""

    kind = "scripts"

    def __init__(self, ids: dict[str, int]) -> None:
        super().__init__(ids)
        self._longest_run = max((len(entry) for entry in ids if JOINED.search(entry)), default=1)

    def folded(self, word: str) -> str:
        """A word as the entries are written: marks that are letters by themselves are kept."""
        return fold_scripts(word)

    def split(self, text: str) -> list[str | ScriptPart]:
        """The words of a text, and of a run without spaces its pieces and its pairs of signs."""
        words: list[str | ScriptPart] = []
        for word in split_scripts(text):
            if RUN.fullmatch(word):
                words += [ScriptPart(piece, piece, "") for piece in self.cut(word)]
                words += [ScriptPart(pair, "", pair) for pair in pairs(word)]
            else:
                words.append(word if word.isascii() or len(word) > WORD_CHARS else self._part(word))
        return words

    def _part(self, word: str) -> str | ScriptPart:
        short = stem(self.folded(word))
        return word if short == fold(word) else ScriptPart(word, word, short)

    def cut(self, run: str) -> list[str]:
        """A run in the longest entries that it begins with, one after the other; else in signs."""
        run, pieces, start = self.folded(run), [], 0
        while start < len(run):
            end = min(len(run), start + self._longest_run)
            while end > start + 1 and run[start:end] not in self._ids:
                end -= 1
            pieces.append(run[start:end])
            start = end
        return pieces


class WordLevel(Vocabulary):
    """Whole words, as pre-trained word vectors have them: as written, else lower-case, else folded.

    A word it lacks has the id of `[UNK]` or `<unk>` if there is such an entry, else no id at all.
    """

    kind = "words"

    def __init__(self, ids: dict[str, int]) -> None:
        super().__init__(ids)
        self.unknown = ids.get("[UNK]", ids.get("<unk>"))

    def pieces(self, word: str) -> tuple[int, ...]:
        """The one id of a word, or none."""
        for form in (word, word.lower(), fold(word)):
            entry = self._ids.get(form)
            if entry is not None:
                return (entry,)
        return () if self.unknown is None or not fold(word) else (self.unknown,)


VOCABULARIES: dict[str, type[WordPiece] | type[WordLevel]] = {
    kind.kind: kind for kind in (WordPiece, Scripts, WordLevel)
}
