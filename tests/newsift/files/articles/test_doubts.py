"""What looks like no article, and texts that are not English."""

import pytest

from encoder.errors import InputError
from newsift.files.article_checks import (
    FEWEST,
    looks_foreign,
    rejection_reason,
    too_few_words,
    without_notices,
    words_in,
)
from newsift.files.articles import Article, WebPage, extract_here
from tests.newsift.files.articles.pages import HEADLINES, NO_STORIES, NOTICE, STORIES, STORY, TITLE
from tests.worker.articles import ARTICLES

NO_STORY = [(look, page) for look, pages in NO_STORIES.items() for page in pages]


@pytest.mark.parametrize("layout", STORIES)
def test_a_story_is_taken_whole_and_no_notice_with_it(layout: str) -> None:
    result = extract_here(WebPage("page.html", STORIES[layout].encode()))
    assert result.doubt is None
    text = result.text.replace("\n", " ")
    for sentence in STORY:
        assert sentence in text
    assert "842 partners" not in text
    assert "|" not in text
    assert result.title == TITLE


@pytest.mark.parametrize(("look", "page"), NO_STORY)
def test_what_is_no_story_says_what_it_looks_like(look: str, page: str) -> None:
    result = extract_here(WebPage("page.html", page.encode()))
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
    assert without_notices(REAL_ARTICLES[name]) == REAL_ARTICLES[name]


def test_a_notice_above_an_article_goes() -> None:
    assert without_notices(f"{NOTICE}\n{STORY[0]}\nAccept all\n{STORY[1]}") == "\n".join(STORY[:2])


def test_words_are_counted_in_any_script() -> None:
    assert words_in("It's a ferry-boat, no. 9!") == 5
    assert words_in(" …\n") == 0
    assert words_in("火災が発生した") == 3  # two letters are a word
    assert words_in("дым над водой") == 3


def test_an_article_has_forty_words() -> None:
    sentence = " ".join(["smoke"] * (FEWEST - 2) + ["again."])
    assert too_few_words(sentence) == f"39 words, and an article has {FEWEST}"
    assert too_few_words(f"smoke {sentence}") is None
    with pytest.raises(InputError, match=r"^a\.md: has 39 words, .*; write more, or so$"):
        Article("", sentence).require_seed("a.md", ", or so")
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
def test_other_languages_are_noticed(language: str) -> None:
    assert looks_foreign(OTHERS[language])


@pytest.mark.parametrize("name", ARTICLES)
def test_english_is_not(name: str) -> None:
    assert not looks_foreign(" ".join(ARTICLES[name]))
