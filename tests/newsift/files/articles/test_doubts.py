"""What looks like no article, and texts that are not English."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    "personal data": (
        "Personal data of 40,000 patients were taken from the hospital of Port Maren. “We take "
        "this very seriously,” its director said. The intruders came in by the account of a "
        "former nurse, who had never been asked for her keys. Nobody has been named as a suspect "
        "so far, and the police ask for patience while the traces are being looked at."
    ),
    "a live blog": "\n".join(
        f"{hour}.00\n{line}" for hour, line in enumerate(STORY * 2, 10)
    ),
    "in Japanese": "火曜日の早朝、フェリーの車両甲板で火災が発生し、"
    "乗客と乗員412人が救命ボートに避難した。"
    "沿岸警備隊によると、正午の時点で9人が行方不明となっている。ヘリコプターや漁船が捜索を続けている。",
    "in Thai": "เกิดเพลิงไหม้บนดาดฟ้ารถยนต์ของเรือเฟอร์รี่เมื่อเช้าวันอังคาร "
    "ผู้โดยสารและลูกเรือสี่ร้อยสิบสองคนต้องลงเรือชูชีพ "
    "หน่วยยามฝั่งกล่าวว่ายังมีผู้สูญหายเก้าคน เฮลิคอปเตอร์และเรือประมงกำลังค้นหา",
    "in Arabic": "اندلع حريق على متن العبارة صباح الثلاثاء مما أجبر الركاب على ركوب قوارب النجاة. "
    "وقال خفر السواحل إن تسعة أشخاص ما زالوا في عداد المفقودين. "
    "وتبحث مروحيات وقوارب صيد في المياه غرب الجزيرة. "
    "وقالت الشركة المالكة إن السفينة خضعت للتفتيش في مايو وإنها لم تكن تحمل بضائع خطرة على متنها.",
    "on biscuits": (
        "School lunches in the north have changed little. Trays hold chicken, beans from a tin and "
        "cookies, which you will find in our canteens too. We asked six cooks what they would "
        "serve if they could. All of them said fish, and two said that nobody would eat it."
    ),
    "a list of winners": " ".join(STORY) + "\n" + "\n".join(["BEST PICTURE", *HEADLINES] * 9),
    "a declaration": " ".join(STORY) + "\nFor imposing taxes on us without our consent:",
    "full of old hints": " ".join(STORY) + "\nPlease enable JavaScript to see the comments.",
    "on storage": " ".join(STORY) + "\nWhen you have reached your storage limit it stops.",
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
    assert words_in("") == words_in(" …\n") == 0
    assert words_in("火災が発生した") == 3
    assert words_in("дым над водой") == 3


@pytest.mark.parametrize("count", [1, FEWEST - 1])
def test_too_few_words_are_counted(count: int) -> None:
    sentence = " ".join(["smoke"] * (count - 1) + ["again."])
    assert too_few_words(sentence) == f"{count} words, and an article has {FEWEST}"
    with pytest.raises(InputError, match=rf"^a\.md: has {count} words, .*; write more, or so$"):
        Article("", sentence).require_seed("a.md", ", or so")
    assert (
        Article("", sentence).require_article("a.md").text == sentence
    )  # `explain` and `embed` take it


def test_from_forty_words_on_it_is_an_article() -> None:
    assert too_few_words(" ".join(["smoke"] * (FEWEST - 1) + ["again."])) is None


def test_two_letters_of_a_script_without_spaces_are_a_word() -> None:
    assert too_few_words("火" * 2 * FEWEST) is None
    assert too_few_words("火" * (2 * FEWEST - 1)) == f"39 words, and an article has {FEWEST}"


OTHERS = {
    "German": """Auf der Fähre vor dem Hafen ist am Dienstag ein Feuer ausgebrochen, und neun
    Menschen werden noch vermisst. Die Küstenwache sucht mit zwei Booten und Hubschraubern.""",
    "French": """Un incendie a éclaté mardi sur le pont du ferry au large du port, et neuf
    personnes sont portées disparues. Les garde-côtes cherchent avec deux bateaux.""",
    "Spanish": """Un incendio se declaró el martes en la cubierta del ferry frente al puerto, y
    nueve personas siguen desaparecidas. La guardia costera busca con dos barcos.""",
    "Dutch": """Op de veerboot voor de haven is dinsdag brand uitgebroken en negen mensen worden
    nog vermist. De kustwacht zoekt met twee boten en een helikopter naar hen.""",
    "Indonesian": """Kebakaran terjadi di geladak kapal feri di lepas pantai pelabuhan pada hari
    Selasa dan sembilan orang masih hilang. Penjaga pantai mencari dengan dua kapal.""",
}


@pytest.mark.parametrize("language", OTHERS)
def test_other_languages_are_noticed(language: str) -> None:
    assert looks_foreign(OTHERS[language])


@pytest.mark.parametrize("name", ARTICLES)
def test_english_is_not(name: str) -> None:
    assert not looks_foreign(" ".join(ARTICLES[name]))


@given(st.text(max_size=200))
def test_what_is_short_is_not_judged(text: str) -> None:
    words = " ".join(text.split()[: FEWEST // 4])
    assert isinstance(looks_foreign(text), bool)
    assert not looks_foreign(words[: FEWEST - 1])
