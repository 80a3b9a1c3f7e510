"""The subject of a figure, its data, and the style of all figures."""

import re
import textwrap
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

import encoder
from encoder import Encoder
from encoder.errors import InputError
from train.data.readers import SkippedRows, Split, split_of_event
from train.protocol.sets import CrisisSet, PairSet, read_crises, read_pair_sets

WIDTH = 6.9  # inches, both columns of a printed page
DPI = 200
BLACK, GREY = "#000000", "#767676"
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
SKY, PURPLE = "#56B4E9", "#CC79A7"
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)  # yellow is too pale for a line
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
SALT = "newsift"
OTHER_FONTS = ("Noto Sans", "Source Han Sans", "Noto Emoji", "Symbola")
MARKS = ("Mn", "Me")  # dropped if no font has them
UNSEEN = ("Cf", "Cc")  # joiners, soft hyphens and control characters
HOLES = re.compile("□[□ ]*□")


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    name: str
    title: str
    figure: Figure


@cache
def fonts() -> tuple[str, ...]:
    """DejaVu Sans, and installed fonts for characters that it lacks."""
    available = sorted({font.name for font in fontManager.ttflist})
    return ("DejaVu Sans", *(name for name in available if name.startswith(OTHER_FONTS)))


@cache
def glyphs() -> frozenset[int]:
    """The code points that at least one font can draw."""
    faces = (get_font(findfont(FontProperties(family=name))) for name in fonts())
    return frozenset(code for font in faces for code in font.get_charmap())


@contextmanager
def paper() -> Iterator[None]:
    """Apply the style of all figures within the block."""
    settings: Any = {
        "font.family": list(fonts()),
        "font.size": 8,
        "axes.titlesize": 8,
        "axes.labelsize": 8,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "legend.fontsize": 7,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "lines.linewidth": 1.2,
        "hatch.linewidth": 0.5,
        "grid.color": "#DDDDDD",
        "grid.linewidth": 0.5,
        "axes.axisbelow": True,
        "text.parse_math": False,  # a post may contain dollar signs
        "svg.hashsalt": SALT,
        "svg.fonttype": "path",
        "savefig.dpi": DPI,
    }
    with mpl.rc_context(settings):
        yield


def page(height: float, width: float = WIDTH, constrained: bool = True) -> Figure:
    """Create an empty figure, in inches; `constrained` enables automatic layout."""
    return Figure(figsize=(width, height), layout="constrained" if constrained else None)


def shorten(text: str, columns: int = 40, lines: int = 1) -> str:
    """Truncate a text and replace characters that cannot be drawn."""
    visible = drawable(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in visible)
    narrow = max(
        1, columns * len(visible) // max(1, len(visible) + wide)
    )  # a wide character takes two columns
    result = "\n".join(textwrap.wrap(visible, narrow, max_lines=lines, placeholder="…"))
    # Legends omit labels that start with an underscore.
    return f" {result}" if result.startswith("_") else result


def drawable(text: str) -> str:
    """Replace each run of characters that no font can draw by one □."""
    visible = (c for c in " ".join(text.split()) if unicodedata.category(c) not in UNSEEN)
    characters = (c for c in visible if ord(c) in glyphs() or unicodedata.category(c) not in MARKS)
    return HOLES.sub("□", "".join(c if ord(c) in glyphs() else "□" for c in characters))


def render(sheet: Sheet) -> dict[str, bytes]:
    """Render the figure as SVG and PNG, reproducibly."""
    files = {}
    for kind, omitted_key in (("svg", "Date"), ("png", "Software")):
        out = BytesIO()
        sheet.figure.savefig(out, format=kind, metadata={omitted_key: None, "Title": sheet.title})
        files[kind] = out.getvalue()
    return files


class MissingDataError(InputError):
    """A figure cannot be drawn for want of data; the message says what it needs."""


@dataclass(frozen=True, eq=False)
class Subject:
    """The model and the data, loaded on first use."""

    model: str
    data: Path | None
    case: Path | None
    split: Split | None
    rate: float
    device: str
    skips: SkippedRows = field(default_factory=SkippedRows)

    @cached_property
    def encoder(self) -> Encoder:
        return encoder.load(self.model, device=self.device)

    @cached_property
    def pair_sets(self) -> list[PairSet]:
        """The pair sets of the split; raises MissingDataError if there are none."""
        if self.data is None or not (self.data / "pairs").is_dir():
            raise MissingDataError("needs --data with a folder pairs/")
        sets = read_pair_sets(self.data, self.split, self.skips)
        if not sets:
            raise MissingDataError(f"needs pairs of the split {self.split}; {self.data} holds none")
        return sets

    @cached_property
    def crises(self) -> list[CrisisSet]:
        """The crises of the split."""
        if self.data is None:
            return []
        crises = read_crises(self.data, self.skips)
        return [crisis for crisis in crises if self.split in (None, split_of_event(crisis.name))]
