"""Who is found: the share of posts that reach their threshold, by how they are written and when.

No label says who speaks which dialect; what stands here for it are marks that can be seen.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from train.data.folder import files
from train.data.readers import Passed, read_stories
from train.protocol.bootstrap import Interval
from train.protocol.ranking import Bool
from train.protocol.reliability import share_of
from train.teacher.chunks import readable

FEW_WORDS = 7
KNOWN = 3  # times in the news, or a word may be a slip of one article
LOWER = re.compile(r"(?<![\w'’@#])[a-z]{2,}(?:['’][a-z]+)*(?!\w)")
NEWS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
SPOKEN = re.compile(
    r"([a-z])\1\1|\w{2}in['’](?!\w)|\b(?:u|ur|r|lol|lmao|omg|omfg|wtf|smh|tho|cuz|gonna|wanna|gotta"
    r"|ain['’]?t|y['’]?all|dat|dis|dey|dem|da|finna|bruh|yo)\b",
    re.IGNORECASE,
)
RETWEET = re.compile(r"\bRT\b:?\s*@")


class Found(NamedTuple):
    """How many posts are written so, and which share of them was found."""

    posts: int
    recall: Interval


def news_words(data: Path) -> frozenset[str]:
    """The words that the articles of a folder use; none where there are no articles."""
    counts: Counter[str] = Counter()
    for file in files(data, "articles").values():
        for story in read_stories(file, Passed()):
            counts.update(map(plain, NEWS.findall(f"{story.title} {story.text}")))
    return frozenset(word for word, count in counts.items() if count >= KNOWN)


def plain(word: str) -> str:
    """A word in lower case, its apostrophe the typewriter's."""
    return word.replace("’", "'").lower()


def marks(news: frozenset[str]) -> dict[str, Callable[[str], bool]]:
    """What can be seen of how a post is written, by name."""

    def foreign(post: str) -> bool:
        return any(plain(word) not in news for word in LOWER.findall(readable(post)))

    seen: dict[str, Callable[[str], bool]] = {
        "written as spoken (u, gonna, sooo)": lambda post: bool(SPOKEN.search(readable(post))),
        "no capital letter": lambda post: readable(post) == readable(post).lower(),
        f"at most {FEW_WORDS} words": lambda post: len(readable(post).split()) <= FEW_WORDS,
        "a hashtag": lambda post: "#" in readable(post),
        "a retweet": lambda post: bool(RETWEET.search(post)),
    }
    return {"a word that no news has": foreign} | seen if news else seen


def found_by(
    posts: Sequence[str], years: Iterable[int | None], found: Bool, news: frozenset[str]
) -> Mapping[str, Found]:
    """The share of the posts that was found: of all, by year where that is known, by each mark."""
    when = list(years)
    groups = {"all": np.ones(len(posts), np.bool_)}
    for year in sorted({year for year in when if year is not None}):
        groups[str(year)] = np.array([one == year for one in when], np.bool_)
    for name, shows in marks(news).items():
        groups[name] = np.array([shows(post) for post in posts], np.bool_)
    return {
        name: Found(int(own.sum()), share_of(int(found[own].sum()), int(own.sum())))
        for name, own in groups.items()
        if own.any()
    }
