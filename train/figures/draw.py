"""Every figure by its name, and the files that they become."""

from collections.abc import Callable, Iterator
from pathlib import Path

from encoder.errors import InputError
from encoder.support.files import write_atomically
from train.figures.alpha import draw_alpha
from train.figures.case import draw_case
from train.figures.reliability import draw_reliability
from train.figures.softmax import draw_attention, draw_sums
from train.figures.style import Sheet, paper, rendered
from train.figures.subject import MissingDataError, Subject
from train.figures.tsne import draw_tsne

FIGURES: dict[str, Callable[[Subject], list[Sheet]]] = {
    "attention": draw_attention,
    "tsne": draw_tsne,
    "alpha": draw_alpha,
    "case": draw_case,
    "appendix": draw_sums,
    "reliability": draw_reliability,
}


def chosen(only: str) -> list[str]:
    """The figures of these names, by commas; all if none is named."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    for name in names:
        if name not in FIGURES:
            raise InputError(f"--only: no figure {name!r}; there are {', '.join(FIGURES)}")
    return names or list(FIGURES)


def draw(
    subject: Subject, names: list[str], out: Path, say: Callable[[str], None]
) -> Iterator[Path]:
    """Draw the figures one after another and write them; one without its data is passed over."""
    for name in names:
        try:
            with paper():
                for sheet in FIGURES[name](subject):
                    yield from write(sheet, out)
        except MissingDataError as error:
            say(f"{name}: {error}")


def write(sheet: Sheet, out: Path) -> Iterator[Path]:
    """Write a sheet as SVG and PNG."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be made ({error.strerror})") from error
    for ending, content in rendered(sheet).items():
        file = out / f"{sheet.name}.{ending}"
        write_atomically(file, content)
        yield file
