"""`newsift bench stories`: the score from which two matches are copies, by their shingles."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import encoder
from bench.measure import Cell, Report, ResultTable
from encoder.embeddings import Embeddings
from encoder.score.lexical import SLOTS, SparseRows
from train.data.readers import SkippedRows, crisis_posts, reports
from worker.match.groups import MIN_STORY_SCORE, StoryGroups
from worker.match.records import StoryKey
from worker.seeds.automatic import Reader

THRESHOLDS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
NEAR, UNLIKE = 0.7, 0.4  # of the shingles of two posts that they share
LETTERS, MIN_WORDS = 4, 4  # in a shingle; and words of a post that is compared
RETWEET = re.compile(r"\b(?:rt|via)\b\s*:?\s*@\w+:?", re.IGNORECASE)
LINKS_AND_MENTIONS = re.compile(r"https?://\S*|@\w+")

HEADER = ("event", "score", "retweets %", "same words %", "near copies %", "unlike %", "random ppm")
GROUPS = ("event", "matches", "groups", "largest", "near copies together %", "unlike in one %")
REMARKS = (
    "Pairs of matches of one event that reach the score. Retweets and same words: equal but for",
    f"RT, addresses, marks and case. Near copies share {NEAR:.0%} of their shingles of {LETTERS}",
    f"letters, unlike posts less than {UNLIKE:.0%}: these in per cent of all pairs that reach it.",
    "Random: of any two matches, in a million. The first three kinds leave out equal texts.",
)

Matrix = NDArray[np.float32]
Bools = NDArray[np.bool_]


class TextPairs(NamedTuple):
    """All pairs of an event's matches: their scores and kinds."""

    score: Matrix  # [p]
    retweet: Bools
    same: Bools
    near: Bools
    unlike: Bools


def measure_stories(data: Path, model: str, reader: Reader, report: Report) -> list[ResultTable]:
    """The pairs of matches by score, and the groups as a worker makes them."""
    shares, groups, sizes = list[Sequence[Cell]](), list[Sequence[Cell]](), Counter[str]()
    with encoder.load(model, device="cpu") as enc:
        for event, texts, vectors in matches_by_event(enc, data, reader):
            report(f"{event}: {len(texts):,} matches")
            pairs = pairs_of(texts, vectors)
            shares += [judge(event, pairs, threshold) for threshold in THRESHOLDS]
            for kind in ("retweet", "same", "near"):
                sizes[kind] += int(getattr(pairs, kind).sum())
            groups.append(judge_groups(event, pairs, vectors))
    summary = "{retweet:,} retweets, {same:,} same words, {near:,} near copies.".format(**sizes)
    rule = f"groups at a score of {MIN_STORY_SCORE:g}"
    title = f"Matches in the order of their file, {rule}, model {model}, {reader}"
    pairs_title = f"Pairs of matches, model {model}, {reader}"
    return [
        ResultTable("pairs", pairs_title, HEADER, shares, [*REMARKS, summary]),
        ResultTable("groups", title, GROUPS, groups),
    ]


def matches_by_event(
    enc: encoder.Encoder, data: Path, reader: Reader
) -> Iterator[tuple[str, list[str], Embeddings]]:
    """The posts gathered for each event that match its reports at the automatic threshold."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for post in crisis_posts(data, SkippedRows()):
        texts[post.event].append(post.text)
    for event, stories in sorted(reports(data, SkippedRows()).items()):
        embed, skim = (enc.skim, True) if reader == "skim" else (enc.posts, False)
        articles, posts = enc.articles(stories), embed(texts[event])
        reach = (posts.similarity(articles) >= enc.thresholds(articles, skim=skim)).any(axis=1)
        rows = np.flatnonzero(reach)
        yield event, [texts[event][row] for row in rows.tolist()], posts[rows]


def pairs_of(texts: Sequence[str], vectors: Embeddings) -> TextPairs:
    """Every pair of matches, once."""
    plain = [plain_words(text) for text in texts]
    first, second = np.triu_indices(len(texts), 1)
    # A number for each text, and for its words: the same for the same.
    whole, number = (
        np.unique(np.array(some, object), return_inverse=True)[1] for some in (texts, plain)
    )
    long = np.array([len(words.split()) >= MIN_WORDS for words in plain], bool)
    passed_on = np.array([RETWEET.search(text) is not None for text in texts], bool)
    overlap = shared_shingles(plain)[first, second]
    is_copy = (whole[first] != whole[second]) & long[first] & long[second]
    equal = (number[first] == number[second]) & is_copy
    one_retweet = passed_on[first] != passed_on[second]
    return TextPairs(
        vectors.similarity(vectors)[first, second],
        equal & one_retweet,
        equal & ~one_retweet,
        (overlap >= NEAR) & is_copy,
        overlap < UNLIKE,
    )


def judge(event: str, pairs: TextPairs, threshold: float) -> Sequence[Cell]:
    """Which pairs reach a score, in per cent of their kind: the cells of HEADER."""
    reach = pairs.score >= np.float32(threshold)
    retweets, same = percent(reach[pairs.retweet]), percent(reach[pairs.same])
    near, unlike = percent(reach[pairs.near]), percent(pairs.unlike[reach])
    return event, threshold, retweets, same, near, unlike, 1e6 * float(reach.mean())


def judge_groups(event: str, pairs: TextPairs, vectors: Embeddings) -> Sequence[Cell]:
    """Group the matches in order, and count the pairs that share a group: the cells of GROUPS."""
    keys = [StoryKey(str(number), frozenset([event])) for number in range(len(vectors))]
    names = np.array([int(story.match_id) for story in StoryGroups().place(keys, vectors)])
    first, second = np.triu_indices(len(names), 1)
    together = names[first] == names[second]
    sizes = Counter(names.tolist()).values()
    shares = percent(together[pairs.near]), percent(pairs.unlike[together])
    return event, len(names), len(sizes), max(sizes), *shares


def percent(holds: Bools) -> float | None:
    """The share that holds; None without any."""
    return 100 * float(holds.mean()) if len(holds) else None


def plain_words(text: str) -> str:
    """The words of a post in lower case, without RT, addresses and punctuation."""
    return " ".join(re.findall(r"\w+", LINKS_AND_MENTIONS.sub(" ", RETWEET.sub(" ", text)).lower()))


def shared_shingles(texts: Sequence[str]) -> Matrix:
    """The share of shingles that each pair of texts has in common: [n, n]."""
    slots = [
        sorted({
            crc32(text[at : at + LETTERS].encode()) % SLOTS
            for at in range(max(1, len(text) - LETTERS + 1))
        })
        for text in texts
    ]  # fmt: skip
    sizes = np.array([len(row) for row in slots], np.int64)
    flat = np.array([slot for row in slots for slot in row], np.int32)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = SparseRows(indptr, flat, np.ones(len(flat), np.float32))
    common = rows.dot(rows)  # [n, n]
    either: Matrix = (sizes[:, None] + sizes - common).astype(np.float32)
    return common / either
