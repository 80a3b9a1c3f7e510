"""Chunks that the cleaning takes away whole, by a rule apart from the compiled one."""

import re

from encoder.model.config import Side

LINK = r"https?://t\.co/[a-zA-Z\d]++…?|https?://(?!(?i:t\.co/))[!#-%'-;=?-~]++…?"
PASSING = {
    Side.POST: re.compile(rf"{LINK}|@\w++:?", re.ASCII).fullmatch,
    Side.ARTICLE: re.compile(LINK, re.ASCII).fullmatch,
}
