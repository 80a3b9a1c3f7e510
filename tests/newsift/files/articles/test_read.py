from pathlib import Path

import pytest

from encoder.errors import InputError
from newsift.files.article_checks import (
    MIN_ARTICLE_WORDS,
    count_words,
    known_share,
    known_words,
    other_language,
    rejection_reason,
    remove_notices,
    too_few_words,
)
from newsift.files.articles import (
    Article,
    WebPage,
    article_from,
    decode_page,
    extract_in_process,
    read_article,
    read_page,
)
from tests.newsift.files.articles.saved_pages import (
    HEADLINES,
    NO_STORIES,
    NOTICE,
    STORIES,
    STORY,
    TITLE,
    page,
)
from tests.worker.sample_articles import ARTICLES

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
    web_page = read_page(saved(tmp_path, "ferry.html", html))
    assert article_from(web_page, is_page=True).url == address


WHOLE = STORIES["article"]
QUOTED = "<p>“Café” – 10 €, said Žofia</p>"


PAGES = [
    WHOLE.encode(),
    b"\xef\xbb\xbf" + WHOLE.encode(),
    WHOLE.encode("utf-16"),
    b"<!-- saved from url=(0021)https://courier.test/ -->\n" + WHOLE.encode(),
    b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body/></html>',
    b"<div><p>One.</p><p>Two.</p></div>",
]
TEXTS = [
    b"A text.",
    b"# A title\n\nA text with <b>a word</b> in bold, </p> </p> </p> and more.",
    b"<https://courier.test/ferry> is where it stands.",
    b"<!-- a note that never ends " + b"-" * 100_000,
    b"html",
]


def test_tells_pages_from_texts_by_their_bytes() -> None:
    assert all(WebPage("x.txt", body).is_markup for body in PAGES)
    assert not any(WebPage("x.html", body).is_markup for body in TEXTS)


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
    assert WebPage("x", body).other_type == kind


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


def test_the_charset_of_the_server_comes_first() -> None:
    html = page("<p>Ночью горел паром</p>", head="<meta charset=utf-8>")
    assert decode_page(WebPage("x", html.encode("koi8-r"), "koi8-r")) == html


NO_STORY = [(look, page) for look, pages in NO_STORIES.items() for page in pages]


@pytest.mark.parametrize("layout", STORIES)
def test_a_story_is_taken_whole_and_no_notice_with_it(layout: str) -> None:
    result = extract_in_process(WebPage("page.html", STORIES[layout].encode()))
    assert result.doubt is None
    text = result.text.replace("\n", " ")
    for sentence in STORY:
        assert sentence in text
    assert "842 partners" not in text
    assert "|" not in text
    assert result.title == TITLE


@pytest.mark.parametrize(("look", "page"), NO_STORY)
def test_rejects_a_page_without_a_story_by_its_look(look: str, page: str) -> None:
    result = extract_in_process(WebPage("page.html", page.encode()))
    assert look in (result.doubt or ""), result
    with pytest.raises(InputError, match=r"^page\.html: looks like .*; save the text") as caught:
        result.require_article("page.html")
    assert result.text[:20].splitlines()[0] in str(caught.value)


REAL_ARTICLES = {
    "as it is": " ".join(STORY),
    "a law on cookies": (
        "The assembly voted on Monday for a law that ends cookie banners. Sites will have to read "
        "the choice that people make once in their browser. “People are tired of them,” said the "
        "minister. Publishers fear for personalised ads, and a consumer group called the law a "
        "gift to the browsers. It is to come into force in two years, if the senate agrees."
    ),
    "in Japanese": "火曜日の早朝、フェリーの車両甲板で火災が発生し、"
    "乗客と乗員412人が救命ボートに避難した。"
    "沿岸警備隊によると、正午の時点で9人が行方不明となっている。ヘリコプターや漁船が捜索を続けている。",
    "in Thai": "เกิดเพลิงไหม้บนดาดฟ้ารถยนต์ของเรือเฟอร์รี่เมื่อเช้าวันอังคาร "
    "ผู้โดยสารและลูกเรือสี่ร้อยสิบสองคนต้องลงเรือชูชีพ "
    "หน่วยยามฝั่งกล่าวว่ายังมีผู้สูญหายเก้าคน เฮลิคอปเตอร์และเรือประมงกำลังค้นหา",
    "a list of winners": " ".join(STORY) + "\n" + "\n".join(["BEST PICTURE", *HEADLINES] * 9),
    "with a hint below": " ".join(STORY * 3) + "\nSubscribe to continue reading such stories.",
}  # fmt: skip


@pytest.mark.parametrize("name", REAL_ARTICLES)
def test_an_article_is_taken_for_one(name: str) -> None:
    assert rejection_reason(TITLE, REAL_ARTICLES[name]) is None
    assert remove_notices(REAL_ARTICLES[name]) == REAL_ARTICLES[name]


def test_a_notice_above_an_article_goes() -> None:
    assert remove_notices(f"{NOTICE}\n{STORY[0]}\nAccept all\n{STORY[1]}") == "\n".join(STORY[:2])


def test_words_are_counted_in_any_script() -> None:
    assert count_words("It's a ferry-boat, no. 9!") == 5
    assert count_words(" …\n") == 0
    assert count_words("火災が発生した") == 3  # two letters are a word
    assert count_words("дым над водой") == 3


def test_an_article_has_forty_words() -> None:
    sentence = " ".join(["smoke"] * (MIN_ARTICLE_WORDS - 2) + ["again."])
    assert too_few_words(sentence) == f"39 words, and an article has {MIN_ARTICLE_WORDS}"
    assert too_few_words(f"smoke {sentence}") is None
    with pytest.raises(InputError, match=r"^a\.md: has 39 words, .*; write more, or so$"):
        Article("", sentence).require_seed("a.md", "default", ", or so")
    assert Article("", sentence).require_article("a.md").text == sentence  # `explain` takes it


OTHERS = {
    "German": """Auf der Fähre vor dem Hafen ist am Dienstag ein Feuer ausgebrochen, und neun
    Menschen werden noch vermisst. Die Küstenwache sucht mit zwei Booten und Hubschraubern.""",
    "French": """Un incendie a éclaté mardi sur le pont du ferry au large du port, et neuf
    personnes sont portées disparues. Les garde-côtes cherchent avec deux bateaux.""",
    "Indonesian": """Kebakaran terjadi di geladak kapal feri di lepas pantai pelabuhan pada hari
    Selasa dan sembilan orang masih hilang. Penjaga pantai mencari dengan dua kapal.""",
}


@pytest.mark.parametrize("language", OTHERS)
def test_an_article_in_another_language_is_no_seed(language: str) -> None:
    words = known_words("default")
    assert (known_share(OTHERS[language], words) or 0) < 0.42
    with pytest.raises(InputError, match="another language"):
        Article("", 2 * OTHERS[language]).require_seed("a.md", "default")
    Article("", 2 * OTHERS[language]).require_article("a.md")  # `explain` takes it


@pytest.mark.parametrize("name", ARTICLES)
def test_english_is_not(name: str) -> None:
    assert other_language(" ".join(ARTICLES[name]), known_words("default")) is None


def test_names_few_words_and_a_small_vocabulary_tell_no_language(
    tmp_path: Path,
) -> None:
    (tmp_path / "vocabulary.txt").write_text("fire\nferry\n")
    german = OTHERS["German"]
    assert other_language(german, known_words(str(tmp_path))) is None
    assert other_language("Feuer auf der Fähre", known_words("default")) is None
    names = "Astrid Vane, Port Maren, Tarrow and Kelsund: the captain of the ferry told the police"
    assert other_language(names, known_words("default")) is None
