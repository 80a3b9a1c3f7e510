"""An article out of a file, a pipe or standard input: text, Markdown, or a page that was saved."""

from pathlib import Path

from encoder.errors import InputError
from worker.files.articles.article import Article
from worker.files.articles.extract import article_of
from worker.files.articles.page import Page
from worker.files.read import input_name, read_whole

PAGES = (".html", ".htm", ".xhtml")


def read_article(file: Path) -> Article:
    """The article in a file; what was taken from a page and looks like none is refused."""
    return possible_article(file).undoubted(input_name(file))


def possible_article(file: Path) -> Article:
    """What a file holds: a page by its ending or by what is in it, else a text."""
    return article_on(saved_page(file), is_page=file.suffix.lower() in PAGES)


def saved_page(file: Path) -> Page:
    """The bytes of a file, a pipe or standard input, whatever they are."""
    return Page(input_name(file), read_whole(file))


def article_on(page: Page, is_page: bool = False) -> Article:
    """What a page holds, or a text; what is called a page may have no markup at its start."""
    if kind := page.other_kind:
        raise InputError(f"{page.url}: is {kind}; save the text and add the file")
    if page.is_markup or (is_page and b"<" in page.body):
        return article_of(page)
    return _of_text(page)


def _of_text(page: Page) -> Article:
    """A text, whose title is a first line that begins with #."""
    try:
        text = page.body.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        told = f"{page.url}: is not UTF-8 at byte {error.start + 1}; convert it"
        raise InputError(told) from error
    first, _, rest = text.partition("\n")
    if first.startswith("# "):
        return Article(first.lstrip("# "), rest.strip())
    return Article("", text)
