"""Texts of which it is said that they are in another language, and texts of which it is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.articles import ARTICLES
from worker.files.articles.language import FEWEST, looks_foreign

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
