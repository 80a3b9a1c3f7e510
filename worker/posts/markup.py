"""The HTML of a status to the text that it shows."""

import html
import re

# No < inside a tag, so that no search for its end runs past the next one: linear for any bytes.
TAG = re.compile(r"""</?([a-zA-Z][a-zA-Z0-9]*+)(?:[^<>"']|"[^<"]*+"|'[^<']*+')*+>|<![^<>]*+>""")
PARAGRAPHS = {"p", "blockquote", "pre", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "div"}
LINES = {"br", "li"}
GAP = re.compile(r"\n{3,}")
NO_CHARACTER = re.compile(r"&#[0-9]{20,}+;?")
LONGEST = 2**15  # characters of HTML; the encoder reads 8,192 of text


def spoken(markup: str) -> str:
    """The text of a status: a blank line between paragraphs, links whole, entities resolved.

    What stands beyond the longest that is read is left out.

    Mastodon hides the beginning and the end of a link in spans; together they are the address.
    """
    markup = markup[:LONGEST]
    if "<" in markup:
        lines = TAG.sub(_shown, markup).split("\n")
        markup = GAP.sub("\n\n", "\n".join(line.strip() for line in lines)).strip()
    if "&" not in markup:
        return markup
    return html.unescape(NO_CHARACTER.sub("\ufffd", markup))


def _shown(tag: re.Match[str]) -> str:
    name = (tag[1] or "").lower()
    if name in PARAGRAPHS:
        return "\n\n"
    # An item is a line of its own: its opening tag alone breaks.
    return "\n" if name in LINES and not tag[0].startswith("</") else ""
