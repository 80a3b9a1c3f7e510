"""What some bytes are, and what they say: pages under any name, in the characters they state."""

import pytest

from newsift.files.articles import WebPage, decode_page
from tests.newsift.files.articles.pages import STORIES, STORY, page

WHOLE = STORIES["article"]
QUOTED = "<p>“Café” – 10 €, said Žofia</p>"


@pytest.mark.parametrize(
    "body",
    [
        WHOLE.encode(),
        b"\xef\xbb\xbf" + WHOLE.encode(),
        WHOLE.encode("utf-16"),
        b"\n\n  " + WHOLE.encode(),
        b"<!-- saved from url=(0021)https://courier.test/ -->\n" + WHOLE.encode(),
        b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body/></html>',
        b"<HTML><BODY>Old.</BODY></HTML>",
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
        b"<3 the ferry. </p></p></p>",
        b"<https://courier.test/ferry> is where it stands.",
        b"<b>Port Maren.</b> A ferry burns.",
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
        (b"\x89PNG\r\n\x1a\n", "a picture"),
        (b"bplist00\xd1\x01\x02", "a web archive of Safari"),
        (b"\x1f\x8b\x08\x00", "packed by gzip"),
        (b"From: <Saved by Blink>\nContent-Type: multipart/related;", "a page saved as MHTML"),
        (b"\x7fELF\x02\x01\x01\x00", "no text but bytes"),
        (b"A text\x00.", "no text but bytes"),
        (b"MIME-Version: a short history of mail", None),
        (WHOLE.encode("utf-16"), None),
        (WHOLE.encode(), None),
        (b"", None),
    ],
)  # fmt: skip
def test_what_is_no_text_is_told(body: bytes, kind: str | None) -> None:
    assert WebPage("x", body).other_kind == kind


@pytest.mark.parametrize(
    ("stated", "charset"),
    [
        ('<meta charset="utf-8">', "utf-8"),
        ("<meta charset=windows-1252>", "cp1252"),
        ("<meta charset=iso-8859-1>", "cp1252"),  # as every browser reads it
        ('<meta http-equiv="Content-Type" content="text/html; charset=windows-1250">', "cp1250"),
        ("<meta charset='utf-16'>", "utf-8"),  # or this could not have been read
        ("<meta charset=no-such-set>", "utf-8"),
        ("", "utf-8"),
        ("", "utf-16"),
        ("", "utf-8-sig"),
    ],
)
def test_the_characters_are_those_that_it_states(stated: str, charset: str) -> None:
    html = page(QUOTED.replace("Žofia", "Zofia") if charset == "cp1252" else QUOTED, head=stated)
    assert decode_page(WebPage("x.html", html.encode(charset))) == html


def test_what_a_server_says_comes_before_the_page() -> None:
    html = page("<p>Ночью горел паром</p>", head="<meta charset=utf-8>")
    assert decode_page(WebPage("x", html.encode("koi8-r"), "koi8-r")) == html


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("gb2312", "渡轮起火，镕"),
        ("shift_jis", "①フェリー"),
        ("euc-kr", "여객선 화재 똠"),
        ("big5", "渡輪起火"),
    ],
)
def test_names_mean_what_browsers_take_them_for(charset: str, text: str) -> None:
    wider = {"gb2312": "gb18030", "shift_jis": "cp932", "euc-kr": "cp949", "big5": "big5hkscs"}
    html = page(f"<p>{text}</p>", head=f"<meta charset={charset}>")
    assert decode_page(WebPage("x", html.encode(wider[charset]))) == html


def test_one_wrong_byte_spoils_one_character() -> None:
    html = page(f"<p>{STORY[2]}</p>", head="<meta charset=utf-8>").encode()
    broken = html.replace(b"Ida", b"Id\xff")
    assert decode_page(WebPage("x", broken)) == html.decode().replace("Ida", "Id\ufffd")
