"""A recipe: the settings of a training run, read from YAML and validated."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
import yaml
from msgspec import Meta

from encoder.errors import InputError
from encoder.model.config import AstConfig
from train.model.encoders import ENCODERS

RECIPES = Path(__file__).parent / "recipes"
TEACHER = "teacher"

Share = Annotated[float, Meta(ge=0, lt=1)]
Positive = Annotated[float, Meta(gt=0)]
Weight = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
TEXT_KINDS = ("posts", "sentences", "articles")  # kinds of steps on texts alone
KINDS = ("pairs", *TEXT_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions:
    """What a token is, and the vectors it starts with."""

    kind: Literal["wordpiece", "words"] = "wordpiece"
    vectors: str = TEACHER  # the teacher's, or a file in the format of GloVe or word2vec
    most: Count = 400_000  # words of such a file
    whole_words: Annotated[int, Meta(ge=0)] = 0  # frequent words added to the word pieces

    def __post_init__(self) -> None:
        if (self.kind == "words") == (self.vectors == TEACHER):
            raise ValueError(
                f"tokens: the teacher has vectors of word pieces, a file those of words; kind "
                f"{self.kind!r} does not go with vectors {self.vectors!r}"
            )
        if self.whole_words and self.kind != "wordpiece":
            raise ValueError("tokens.whole_words: are added to word pieces alone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The weights of the losses; 0 disables one."""

    triplet: Weight = 0.0
    contrastive: Weight = 0.0
    sigmoid: Weight = 0.0
    vectors: Weight = 0.0
    neighbours: Weight = 0.0
    scores: Weight = 0.0
    errors: Weight = 0.0  # of scores with articles that the teacher reads, squared
    margin: Positive = 0.075
    temperature: Positive = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSizes:
    """The relative frequency of each kind of step, and its number of texts."""

    pairs: Weight = 1.0
    posts: Weight = 0.0
    sentences: Weight = 0.0
    articles: Weight = 0.0
    pair_size: Count = 128
    headline_size: Annotated[int, Meta(ge=0)] = 0  # additional pairs of title and body
    post_size: Count = 256
    article_size: Count = 32
    drop: Share = 0.0  # the share of tokens dropped at random

    def __post_init__(self) -> None:
        if not any(getattr(self, kind) for kind in KINDS):
            raise ValueError(f"batches: no kind of step is above 0; name one of {', '.join(KINDS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The schedule."""

    count: Count = 1000
    rate: Positive = 1e-3
    table_rate: Positive = 1e-3  # of token vectors and gates
    star_rate: Positive | None = None  # of ring, star and gain; `rate` by default
    warm_up: Annotated[int, Meta(ge=0)] = 0  # steps
    decay: bool = True  # linear, to zero
    clip: Positive = 1.0
    average_from: Annotated[float, Meta(ge=0, le=1)] = 1.0  # the share of steps before averaging
    average_every: Count = 20
    judge_every: Count = 200
    patience: Annotated[int, Meta(ge=0)] = 0  # evaluations without improvement; 0 never stops early
    keep_every: Count = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    encoder: str = "ast"
    model: AstConfig = field(default_factory=AstConfig)
    tokens: TokenOptions = field(default_factory=TokenOptions)
    losses: Losses = field(default_factory=Losses)
    batches: BatchSizes = field(default_factory=BatchSizes)
    steps: Steps = field(default_factory=Steps)
    articles: Literal["model", "teacher"] = "model"  # who reads those of pairs and of dev
    mix: tuple[Share, ...] = (0.0,)  # λ; of several the best on the dev split
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0

    def __post_init__(self) -> None:
        if self.encoder not in ENCODERS:
            raise ValueError(f"encoder {self.encoder!r} is not one of {', '.join(ENCODERS)}")
        if not self.mix:
            raise ValueError("mix is empty; name at least one λ")
        if not self.losses.vectors and any(map(self.has, TEXT_KINDS)):
            raise ValueError(f"batches: {', '.join(TEXT_KINDS)} need losses.vectors above 0")
        if self.articles == TEACHER and self.has("articles"):
            raise ValueError("batches.articles: must be 0 where the teacher reads the articles")
        if self.losses.errors and self.articles != TEACHER:
            raise ValueError("losses.errors: needs articles: teacher")

    def has(self, kind: str) -> bool:
        return bool(getattr(self.batches, kind))

    @property
    def needs_teacher(self) -> bool:
        """Whether the teacher's vectors are read."""
        losses = self.losses
        taught = losses.vectors or losses.scores
        return bool(taught) or TEACHER in (self.tokens.vectors, self.articles)

    @property
    def digest(self) -> str:
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_recipe(name: str) -> Recipe:
    """Read a shipped recipe by name, or a file."""
    own_file = RECIPES / f"{name}.yaml"
    file = own_file if own_file.is_file() else Path(name)
    return parse(read_values(file), str(file))


def read_values(file: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read a recipe's file, merged into its `base`: of the same folder, else one that ships."""
    if file in above:
        raise InputError(f"{above[0]}: base: {file.stem!r} is based on itself; name another recipe")
    values = read_yaml(file)
    if not isinstance(values, dict):
        raise InputError(f"{file}: a recipe must hold keys and values")
    base = values.pop("base", None)
    if base is None:
        return values
    beside, shipped = file.with_name(f"{base}.yaml"), RECIPES / f"{base}.yaml"
    is_shipped = shipped.is_file() and not beside.is_file()
    below = read_values(shipped if is_shipped else beside, (*above, file))
    return below | {key: override(below.get(key), value) for key, value in values.items()}


def override(below: object, value: object) -> object:
    """Override a value; a section is merged by key."""
    return below | value if isinstance(below, dict) and isinstance(value, dict) else value


def read_yaml(file: Path) -> object:
    """Read a YAML file; only plain values are allowed."""
    try:
        return yaml.safe_load(file.read_text("utf-8")) or {}
    except OSError as error:
        names = sorted(path.stem for path in RECIPES.glob("*.yaml"))
        near = get_close_matches(file.stem, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"those that ship: {', '.join(names)}"
        raise InputError(f"recipe {str(file)!r}: no such file; {hint}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: is not YAML ({' '.join(str(error).split())})") from error


def parse(values: object, source: str) -> Recipe:
    """Make a recipe from plain values; an unknown key raises InputError with the nearest key."""
    refuse_unknown(values, Recipe, source)
    try:
        return msgspec.convert(values, Recipe)
    except (msgspec.ValidationError, InputError) as error:
        fault = str(error).replace("`$.", "`").replace(" - at `$`", "")
        raise InputError(f"{source}: {fault}") from error


def refuse_unknown(values: object, kind: type, source: str, at: str = "") -> None:
    """Raise InputError for an unknown key."""
    if not isinstance(values, dict):
        raise InputError(f"{source}: {at.rstrip('.') or 'a recipe'} must hold keys and values")
    hints = get_type_hints(kind)
    for key, value in values.items():
        if key not in hints:
            near = get_close_matches(str(key), hints, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(hints)}"
            raise InputError(f"{source}: unknown key {at}{key}; {hint}")
        if is_dataclass(hints[key]):
            refuse_unknown(value, hints[key], source, f"{at}{key}.")
