"""The teachers' vectors of texts and states of tokens, as a recipe needs them."""

from pathlib import Path

from encoder.errors import InputError
from encoder.text.vocabulary import Vocabulary
from train.teacher.minilm import WIDTH, Teacher, teacher_folder
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


def open_store(cache: Path | None) -> VectorStore:
    """Open MiniLM's vectors of texts."""
    return VectorStore(teacher_folder(cache), WIDTH)


def open_wordllama(store: VectorStore) -> VectorStore:
    """Open WordLlama's vectors, which are inside MiniLM's folder."""
    return VectorStore(store.folder / "wordllama", WORDLLAMA_WIDTH)


def open_vectors(wordllama: float, cache: Path | None) -> TextVectors:
    """Open MiniLM's vectors, beside WordLlama's if they count."""
    store = open_store(cache)
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
