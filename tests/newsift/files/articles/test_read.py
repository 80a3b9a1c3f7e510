"""One reader of articles: texts as they are, pages without what stands around the story."""

import base64
import os
import threading
from pathlib import Path

import pytest

from encoder.errors import InputError
from newsift.files.articles import read_article, read_possible_article
from tests.newsift.files.articles.pages import BANNER, MENU, STORIES, STORY, TITLE, page
from tests.worker.fake import Command

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


def test_a_page_in_a_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[STORIES["article"].encode()])
    writer.start()
    assert STORY[3] in read_article(pipe).text
    writer.join()


@pytest.mark.usefixtures("fake")
def test_every_command_that_takes_an_article_reads_pages(newsift: Command, tmp_path: Path) -> None:
    good = saved(tmp_path, "ferry.html", STORIES["plain divs"])
    bad = saved(tmp_path, "notice.html", page(BANNER + MENU))
    done = newsift("explain", "A ferry burns", "--article", good, "--json")
    assert done.code == 0
    for force, command in enumerate(
        (["explain", "A ferry", "--article", bad], ["filter", "-", "--seeds", bad])
    ):
        done = newsift(*command)
        assert (done.code, done.out) == (2, "")
        assert "notice.html: looks like a cookie or consent notice" in done.err
        assert ("--force" in done.err) == bool(force)
