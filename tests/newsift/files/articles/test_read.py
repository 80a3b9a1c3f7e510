"""Articles as files: texts as they are, pages without what stands around the story."""

import base64
from pathlib import Path

import pytest

from encoder.errors import InputError
from newsift.files.articles import WebPage, decode_page, read_article, read_possible_article
from tests.newsift.files.articles.pages import STORIES, STORY, TITLE, page

pytestmark = pytest.mark.usefixtures("read_in_process")


def saved(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


@pytest.mark.parametrize("name", ["ferry.html", "ferry.HTM", "ferry.txt", "ferry.md", "ferry"])
def test_a_saved_page_is_its_story(tmp_path: Path, name: str) -> None:
    result = read_article(saved(tmp_path, name, STORIES["banner first"]))
    assert result.title == TITLE
    assert all(part in result.text for part in STORY)
    assert "<" not in result.text
    assert "partners" not in result.text


def test_a_text_stays_as_it_is(tmp_path: Path) -> None:
    content = "# A <b>title</b>\n\nA ferry burns. We use cookies.\n"
    result = read_article(saved(tmp_path, "a.md", content))
    assert (result.title, result.text) == ("A <b>title</b>", "A ferry burns. We use cookies.")
    assert read_article(saved(tmp_path, "b.html", "Bare words.")).text == "Bare words."


@pytest.mark.parametrize(
    ("head", "address"),
    [
        ('<link rel="canonical" href="https://courier.test/ferry">', "https://courier.test/ferry"),
        ('<link rel="canonical" href="javascript:alert(1)">', None),
        ("<!-- saved from url=(0026)https://courier.test/saved -->", "https://courier.test/saved"),
        ("", None),
    ],
)
def test_a_saved_page_may_name_its_address(tmp_path: Path, head: str, address: str | None) -> None:
    html = page(f"<article><h1>{TITLE}</h1><p>{'</p><p>'.join(STORY)}</p></article>", head=head)
    assert read_possible_article(saved(tmp_path, "ferry.html", html)).url == address


def test_a_page_with_its_pictures_inside_is_read(tmp_path: Path) -> None:
    picture = base64.b64encode(bytes(range(256)) * 2**15).decode()
    image = f'<img src="data:image/png;base64,{picture}">'
    html = STORIES["article"].replace("<article>", f"{image}<article>{image}")
    assert len(html) > 2**24
    assert STORY[0] in read_article(saved(tmp_path, "ferry.html", html)).text


@pytest.mark.parametrize("name", ["report.pdf", "report.html", "report.txt"])
def test_a_pdf_is_told_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"{name}: is a PDF; save the text and add the file"):
        read_article(saved(tmp_path, name, b"%PDF-1.7\n\x00\x01"))


WHOLE = STORIES["article"]
QUOTED = "<p>“Café” – 10 €, said Žofia</p>"


@pytest.mark.parametrize(
    "body",
    [
        WHOLE.encode(),
        b"\xef\xbb\xbf" + WHOLE.encode(),
        WHOLE.encode("utf-16"),
        b"<!-- saved from url=(0021)https://courier.test/ -->\n" + WHOLE.encode(),
        b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body/></html>',
        b"<div><p>One.</p><p>Two.</p></div>",
    ],
)
def test_a_page_is_one_whatever_it_is_called(body: bytes) -> None:
    assert WebPage("x.txt", body).is_markup


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"A text.",
        b"# A title\n\nA text with <b>a word</b> in bold, </p> </p> </p> and more.",
        b"<https://courier.test/ferry> is where it stands.",
        b"<!-- a note that never ends " + b"-" * 100_000,
        b"html",
    ],
)
def test_a_text_is_no_page(body: bytes) -> None:
    assert not WebPage("x.html", body).is_markup


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"%PDF-1.7\n%\xe2\xe3", "a PDF"),
        (b"PK\x03\x04\x14\x00", "an archive, as .docx, .odt, .epub and .zip are"),
        (b"{\\rtf1\\ansi A ferry}", "a document in RTF"),
        (b"\x1f\x8b\x08\x00", "packed by gzip"),
        (b"From: <Saved by Blink>\nContent-Type: multipart/related;", "a page saved as MHTML"),
        (b"\x7fELF\x02\x01\x01\x00", "no text but bytes"),
        (b"A text\x00.", "no text but bytes"),
        (b"MIME-Version: a short history of mail", None),
        (WHOLE.encode(), None),
    ],
)  # fmt: skip
def test_names_what_is_no_text(body: bytes, kind: str | None) -> None:
    assert WebPage("x", body).other_kind == kind


@pytest.mark.parametrize(
    ("stated", "charset"),
    [
        ('<meta charset="utf-8">', "utf-8"),
        ("<meta charset=iso-8859-1>", "cp1252"),  # as every browser reads it
        ('<meta http-equiv="Content-Type" content="text/html; charset=windows-1250">', "cp1250"),
        ("<meta charset='utf-16'>", "utf-8"),  # or this could not have been read
        ("<meta charset=no-such-set>", "utf-8"),
        ("", "utf-8"),
        ("", "utf-16"),
    ],
)
def test_the_characters_are_those_that_it_states(stated: str, charset: str) -> None:
    html = page(QUOTED.replace("Žofia", "Zofia") if charset == "cp1252" else QUOTED, head=stated)
    assert decode_page(WebPage("x.html", html.encode(charset))) == html


def test_what_a_server_says_comes_before_the_page() -> None:
    html = page("<p>Ночью горел паром</p>", head="<meta charset=utf-8>")
    assert decode_page(WebPage("x", html.encode("koi8-r"), "koi8-r")) == html
