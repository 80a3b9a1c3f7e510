"""Whether a text is in the language that newsift is made for."""

import re
from itertools import islice

FEWEST = 20  # words that tell
READ = 2_000  # words
ENOUGH = 0.2  # of an English text nearly half of the words are these, of others a few by chance
WORD = re.compile(r"[^\W\d_]+")
COMMON = """
    the of to and a in that is was he for it with as his on be at by had not are but from or have
    an they which one you were her all she there would their we him been has when who will more no
    if out so said what up its about into than them can only other new some could time these two
    may then do first any my now such like our over man me even most made after also did many
    before must through years where much your way well down should because each just those people
    too good against while under being still i
"""
COMMON_WORDS = frozenset(COMMON.split())


def looks_foreign(text: str) -> bool:
    """Whether a text that is long enough to tell has too few of the common words of English."""
    words = [word.group().lower() for word in islice(WORD.finditer(text), READ)]
    return len(words) >= FEWEST and sum(word in COMMON_WORDS for word in words) < ENOUGH * len(
        words
    )
