"""What a post of the greatest length costs: words that are made of it, counted in each script."""

import random

import numpy as np
import pytest

from encoder.model.config import AstConfig, Side
from encoder.score.lexical import SLOTS, Idf
from encoder.text.clean import POST_CHARS, POST_TOKENS
from encoder.text.tokenizer import Tokenizer
from encoder.text.vocabulary import WordPiece
from tests.encoder.small_model import LINES

IDF = Idf(np.ones(SLOTS, np.float32))
ALPHABETS = {
    "latin": (0x61, 0x7B), "han": (0x4E00, 0x9FA5), "hiragana": (0x3041, 0x3096),
    "katakana": (0x30A1, 0x30FA), "hangul": (0xAC00, 0xD7A3), "thai": (0x0E01, 0x0E2E),
    "cyrillic": (0x0430, 0x044F), "arabic": (0x0621, 0x064A), "greek": (0x03B1, 0x03C9),
    "devanagari": (0x0905, 0x0939), "signs": (0x2190, 0x21FF), "punctuation": (0x21, 0x2F),
}  # fmt: skip


class CountedPieces(WordPiece):
    """Counts the words whose tokens are asked for; those in a cache are not."""

    made = 0

    def pieces(self, word: str) -> tuple[int, ...]:
        self.made += 1
        return super().pieces(word)


def hostile(alphabet: str, gap: int) -> str:
    """Random letters, no two words alike, with a space after every so many."""
    dice = random.Random(gap)
    letters = [chr(dice.randrange(*ALPHABETS[alphabet])) for _ in range(POST_CHARS)]
    return "".join(" " if n % (gap + 1) == gap else letter for n, letter in enumerate(letters))


@pytest.mark.parametrize("gap", [1, 3, 16, 400, POST_CHARS])
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_a_long_post_makes_few_words_in_any_script(alphabet: str, gap: int) -> None:
    vocabulary, text = CountedPieces.from_lines(LINES), hostile(alphabet, gap)
    tokenizer = Tokenizer(vocabulary, IDF, AstConfig())
    tokens = tokenizer.posts([text, "storm"])
    assert vocabulary.made <= 5 * POST_TOKENS
    assert len(tokens.lexical.slots) <= 4 * POST_TOKENS
    words = tokenizer.words(text, Side.POST)
    assert len(words) <= 4 * POST_TOKENS
    read = [i for word in words for i in word.ids][: AstConfig().post_tokens]
    assert tokens.ids[: tokens.offsets[1]].tolist() == read
    assert {word.slot for word in words if word.weight > 0} == {
        *tokens.lexical.slots[: tokens.lexical.indptr[1]].tolist()
    }
