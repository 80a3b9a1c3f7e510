"""`newsift.match` and `newsift.Sieve`: which posts match which articles."""

import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np

import encoder
from encoder import Encoder
from encoder.embeddings import Embeddings, is_real
from encoder.errors import InputError, ModelError
from encoder.model.config import Side
from encoder.support.files import require_path
from encoder.support.named import model_directory, named_models
from encoder.text.clean import each_of, is_pair
from worker.background_file import read_background
from worker.match.links import linked_pairs
from worker.match.readers import Matched, MatchOptions, PostMatcher, PostReader
from worker.match.records import match_id, select_why_tokens, shortest_float
from worker.posts.attachments import NO_ATTACHMENTS, attachments_of
from worker.posts.checks import text_id
from worker.posts.compare import compared_text
from worker.posts.outcome import PLATFORMS, Post
from worker.seeds.automatic import OwnBackground, Reader, ThresholdRules
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.profile import SeedOrProfile
from worker.seeds.record import MAX_EVENT_BYTES
from worker.seeds.set import SeedSet
from worker.seeds.state import parse_control_state

InputItem: TypeAlias = str | tuple[str, str] | Mapping[str, Any] | list[Any]
ID = "id"
ID_TYPES = (str, int, np.integer, float, np.floating, Decimal)
MAX_WHOLE_FLOAT = 2**53  # from here on a float may stand for several whole numbers
ROUNDED_IDS = (
    "ids: as floats these may be rounded, so digests of the texts stand for them; give them as text"
)


class InputPost(NamedTuple):
    id: Any
    text: str  # all that is compared
    post: Post  # what it says and links to, without an id


def read_posts(posts: Any, text: str, id: str | None) -> Iterator[InputPost]:
    """From two columns of a table, or from texts or dicts."""
    if hasattr(posts, "columns"):
        texts = _column(posts, text)
        has_ids = id is not None or ID in _column_names(posts)
        pairs = zip(_column(posts, id or ID) if has_ids else texts, texts, strict=True)
        items: Iterable[Any] = ({ID: key if has_ids else None, text: value} for key, value in pairs)
        id = ID
    elif isinstance(posts, Mapping):
        raise InputError("posts: a single dict was given; put it into a list")
    else:
        items = each_of(posts, Side.POST)
    return (_post(item, text, id or ID, number) for number, item in enumerate(items))


def read_articles(articles: Any) -> Iterator[tuple[str, str, bytes]]:
    """Of each article the place in the input, the seed id, and the record of the control topic.

    The id is that of its record, else its position within its event: `event/0`, `event/1`.
    """
    counts = Counter[str]()
    for place, event, default_event, item in _items(articles):
        record = _record(item, place, event, default_event)
        record_id, name = record.get("id"), record["event"]
        seed_id = f"{name}/{counts[name]}" if record_id is None else str(record_id)
        counts[name] += 1
        try:
            value = json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")
        except TypeError as error:
            raise InputError(f"{place}: is not a seed record ({error})") from error
        yield place, seed_id, value


def _items(articles: Any) -> Iterator[tuple[str, str | None, str, Any]]:
    """Of each article its place, its event, the event of one that has none, and itself."""
    if not isinstance(articles, Mapping):
        for number, item in enumerate(each_of(articles, Side.ARTICLE)):
            yield f"articles[{number}]", None, f"article {number + 1}", item
        return
    if isinstance(articles.get("text"), str):
        raise InputError("articles: a single record was given; put it into a list")
    for event, items in articles.items():
        for item in items if isinstance(items, list) else [items]:
            yield f"articles[{event!r}]", str(event), "", item


def _column_names(table: Any) -> list[Any]:
    """The `columns` of pyarrow are the values."""
    return list(getattr(table, "column_names", table.columns))


def _column(table: Any, name: str) -> Any:
    names = _column_names(table)
    if name not in names:
        columns = ", ".join(map(repr, names))
        raise InputError(
            f"posts: no column {name!r}; name it by text= or id= ({columns} are there)"
        )
    if names.count(name) > 1:
        raise InputError(f"posts: several columns are called {name!r}; rename all but one")
    column = table[name]
    return column.to_pylist() if hasattr(column, "to_pylist") else column


def _post(item: Any, text: str, id: str, number: int) -> InputPost:
    content, name, attachments = item, None, NO_ATTACHMENTS
    if isinstance(item, Mapping):
        content, name, attachments = item.get(text), item.get(id), attachments_of(item)
    if not isinstance(content, str):
        kind = "no text" if content is None else type(content).__name__
        raise InputError(f"posts[{number}]: {kind}, expected a str under {text!r}; leave it out")
    name = _id_of(name, content, number)
    alt, card, links = attachments
    post = Post("", "plain", content, alt=alt, card=card, links=links)
    return InputPost(name, compared_text(post), post)


def _id_of(given: Any, text: str, place: int) -> Any:
    """The digest of the text where no id is given, or a float that may have been rounded."""
    if given is None or _is_missing(given) or (isinstance(given, str) and not given.strip()):
        return text_id(text)
    if isinstance(given, bool) or not isinstance(given, ID_TYPES):
        kind = type(given).__name__
        raise InputError(f"posts[{place}]: its id is a {kind}, expected a text or a whole number")
    if isinstance(given, float | np.floating) and (number := float(given)).is_integer():
        # pandas makes floats of a column of whole numbers where one is missing.
        if abs(number) < MAX_WHOLE_FLOAT:
            return int(number)
        warnings.warn(ROUNDED_IDS, stacklevel=2)
        return text_id(text)
    return given


def _is_missing(value: Any) -> bool:
    """Whether it stands for nothing in a table; pandas.NA refuses the comparison."""
    try:
        return bool(value != value)  # NaN, NaT
    except (TypeError, ArithmeticError):  # the latter of a Decimal that is no number
        return True
    except ValueError:  # an array
        return False


def _record(item: Any, place: str, event: str | None, default_event: str) -> dict[str, Any]:
    if isinstance(item, str):
        item = {"text": item}
    elif is_pair(item):
        item = {"title": item[0], "text": item[1]}
    elif not isinstance(item, Mapping):
        kind = type(item).__name__
        raise InputError(f"{place}: {kind}, expected a text, a (title, text) or a seed record")
    record = dict(item)
    title = str(item.get("title") or "").encode("utf-8", "ignore")[:MAX_EVENT_BYTES]
    own_name = item.get("event") or (None if item.get("id") is None else str(item["id"]))
    record["event"] = event or own_name or title.decode("utf-8", "ignore") or default_event
    return record


BLOCK = 4096  # posts
MAX_MATCHES = 10  # of a post, as matching.max_matches
COLUMNS = ("id", "score", "threshold", "matched", "event", "why", "match_id")
MATCH_COLUMNS = ("id", "match_id", "event", "seed_id", "score", "threshold")


def match(
    posts: Iterable[Any],
    articles: Iterable[InputItem] | Mapping[str, InputItem],
    *,
    text: str = "text",
    id: str | None = None,
    model: str | Path | Encoder = "default",
    rate: float = 0.001,
    threshold: float | None = None,
    background: str | Path | None = None,
    reader: Reader = "read",
) -> Any:
    """Say of every post which article it comes closest to, and whether that is a match.

    `posts` are texts, dicts or a table, whose text stands under the name `text` and whose id under
    `id` ("id" if there is one); without an id it is a digest of the text. A dict may have `alt`,
    `card` and `links`, as a match record has them. `articles` are texts,
    (title, text) pairs or seed records such as {"text", "title", "event", "threshold"}, in a list
    or by their events: {event: article or list of articles}.

    The result has a row for every post, in order: id, score, threshold, matched, event, why, which
    are the words that made the score, and match_id; the last three for matches alone. It is a
    DataFrame with the index of the posts where they came as one of pandas, else a list of dicts. A
    post that matches several articles has the best. `threshold` is the score that is a match;
    without it each article has the score that this `rate` of everyday posts would reach, or of the
    posts in the file `background`, which `newsift background build` made. A post that may match is
    read by the transformer; the scores of others are approximate, and with `reader` "skim" all are.

    It is `Sieve(articles, …)(posts, …)`, which embeds the articles once for many calls.
    """
    sieve = Sieve(
        articles, model=model, rate=rate, threshold=threshold, background=background, reader=reader
    )
    return sieve(posts, text, id)


class Sieve:
    """Articles to compare posts with, embedded once; takes the options of `match`.

    It can be pickled, and then holds the articles' embeddings and thresholds, and the model's name
    and digest; each process loads the model once, and refuses one of another digest.
    """

    def __init__(
        self,
        articles: Iterable[InputItem] | Mapping[str, InputItem],
        *,
        model: str | Path | Encoder = "default",
        rate: float = 0.001,
        threshold: float | None = None,
        background: str | Path | None = None,
        reader: Reader = "read",
    ) -> None:
        if reader not in get_args(Reader):
            raise InputError(f"reader: {reader!r} is neither read nor skim")
        self._model = model if isinstance(model, Encoder) else _model_name(model)
        enc = self._encoder()
        own_background = None
        if background is not None:
            own_background = read_background(require_path("background", background), enc, rate)
        self._reader = reader
        rules = ThresholdRules(rate, threshold, reader=reader)
        self._seeds = _seeds(enc, articles, rules, own_background)
        self.digest = enc.digest

    def __call__(
        self, posts: Any, text: str = "text", id: str | None = None, platform: str = "plain"
    ) -> Any:
        """The rows of `match`; `platform`, one of a post's, is part of a match_id."""
        _require_platform(platform)
        rows: list[dict[str, Any]] = []
        comparison = self._comparison(1)
        for block in _blocks(posts, text, id):
            rows += _result_rows(comparison, block, platform)
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(posts, pandas.DataFrame):
            return pandas.DataFrame(rows, index=posts.index, columns=COLUMNS)
        return rows

    def matches(
        self, posts: Any, text: str = "text", id: str | None = None, platform: str = "plain"
    ) -> list[dict[str, Any]]:
        """A row for each match alone, those of a post by falling score, ten at most."""
        _require_platform(platform)
        comparison = self._comparison(MAX_MATCHES)
        rows: list[dict[str, Any]] = []
        for block in _blocks(posts, text, id):
            _, found = comparison.match(block)
            matched = found.pairs
            pairs = zip(matched.posts.tolist(), matched.seeds.tolist(), matched.scores, strict=True)
            for at, number, score in pairs:
                seed, post = self._seeds.seeds[number], block[at]
                rows.append({
                    "id": post.id,
                    "match_id": _match_id(post, platform, seed, self.digest),
                    "event": seed.event,
                    "seed_id": seed.id,
                    "score": shortest_float(score),
                    "threshold": shortest_float(self._seeds.thresholds[number]),
                })  # fmt: skip
        return rows

    def _encoder(self) -> Encoder:
        if isinstance(self._model, Encoder):
            return self._model
        digest = getattr(self, "digest", None)
        try:
            enc = _load(self._model)
        except ModelError as error:
            if digest is None:
                raise
            remedy = f"put model {digest[:12]}, which embedded the articles, there on this machine"
            raise ModelError(f"{error}; {remedy}") from error
        if digest not in (None, enc.digest):
            raise ModelError(
                f"{self._model}: holds model {enc.digest[:12]}, but the articles were embedded by "
                f"{digest[:12]}; make the Sieve again"
            )
        return enc

    def _comparison(self, most: int) -> "Comparison":
        enc = self._encoder()
        reader = PostReader(enc, enc.threads)
        matcher = PostMatcher(reader.read, self._seeds, MatchOptions(enc.threads, most))
        return Comparison(enc, matcher, self._reader == "skim")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What compares blocks of posts with the articles."""

    enc: Encoder
    matcher: PostMatcher
    skims_alone: bool

    def match(self, posts: list[InputPost]) -> tuple[Embeddings, Matched]:
        """The posts' vectors, skimmed where a model has two readers, and what matches."""
        texts = [post.text for post in posts]
        embeddings = self.enc.skim(texts) if self.enc.has_star else self.enc.posts(texts)
        times = np.zeros(len(posts), np.int64)
        linked = linked_pairs([post.post for post in posts], self.matcher.seeds.links, times)
        return embeddings, self.matcher.match(texts, embeddings, times, linked)


def _model_name(model: str | Path) -> str:
    """The name or the whole path, which other processes find from any folder."""
    return str(model) if model in named_models() else str(model_directory(model).resolve())


@cache
def _load(model: str) -> Encoder:
    return encoder.load(model)


def _blocks(posts: Any, text: str, id: str | None) -> Iterator[list[InputPost]]:
    read = read_posts(posts, text, id)
    while block := list(islice(read, BLOCK)):
        yield block


def _seeds(
    enc: Encoder, articles: Iterable[InputItem] | Mapping[str, InputItem], rules: ThresholdRules,
    own_background: OwnBackground | None,
) -> SeedSet:  # fmt: skip
    """What the worker would refuse is refused."""
    rate, threshold = rules.rate, rules.threshold
    if not (is_real(rate) and 0 < rate < 1):
        raise InputError(f"rate: {rate!r} is not a share between 0 and 1")
    if threshold is None and own_background is None:
        enc.thresholds(enc.articles([]), rate)  # refuses a rate that is too fine
    if threshold is not None and not (is_real(threshold) and 0 < threshold <= 1):
        raise InputError(f"threshold: {threshold!r} is not above 0 and at most 1")
    records: dict[bytes, bytes] = {}
    places: dict[str, str] = {}
    for place, seed_id, record in read_articles(articles):
        if seed_id in places:
            raise InputError(f"{place}: its id {seed_id!r} is that of {places[seed_id]}; leave one")
        places[seed_id] = place
        records[seed_id.encode("utf-8", "surrogatepass")] = record
    seeds = SeedEmbedder(enc, rules, own_background).make(parse_control_state(records))
    for refusal in seeds.refused:
        raise InputError(f"{places.get(refusal.id, refusal.id)}: {refusal.reason}")
    if not len(seeds):
        raise InputError("articles: there is none to compare with; give one that is not paused")
    return seeds


def _require_platform(platform: str) -> None:
    if platform not in PLATFORMS:
        raise InputError(f"platform: {platform!r} is none of {', '.join(PLATFORMS)}")


def _match_id(post: InputPost, platform: str, seed: SeedOrProfile, digest: str) -> str:
    text = post.text.encode("utf-8", "replace").decode()  # a str of numpy or pandas, too
    return match_id(Post(str(post.id), platform, text), seed, digest)


def _result_rows(
    comparison: Comparison, posts: list[InputPost], platform: str
) -> Iterator[dict[str, Any]]:
    """A row for each post: its best match, else the article with the highest score."""
    enc, seeds = comparison.enc, comparison.matcher.seeds
    (embeddings, found), A = comparison.match(posts), seeds.embeddings
    matched = found.pairs
    highest, closest = (column[:, 0] for column in embeddings.search(A, 1))  # [n], [n]
    if comparison.matcher.skims:
        read_scores, read_closest = found.vectors.search(A, 1)
        highest[found.rows], closest[found.rows] = read_scores[:, 0], read_closest[:, 0]
    highest[matched.posts], closest[matched.posts] = matched.scores, matched.seeds
    matches, texts = matched.posts.tolist(), [post.text for post in posts]
    pairs = list(zip(matches, matched.seeds.tolist(), strict=True))
    parts = enc.contributions(texts, A, pairs, comparison.skims_alone)
    why = dict(zip(matches, map(select_why_tokens, parts), strict=True))
    for at, (post, seed) in enumerate(zip(posts, closest.tolist(), strict=True)):
        yield {
            "id": post.id,
            "score": shortest_float(highest[at]),
            "threshold": shortest_float(seeds.thresholds[seed]),
            "matched": at in why,
            "event": seeds.seeds[seed].event if at in why else None,
            "why": why.get(at, []),
            "match_id": _match_id(post, platform, seeds.seeds[seed], enc.digest)
            if at in why
            else None,
        }
