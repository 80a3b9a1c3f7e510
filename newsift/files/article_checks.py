"""Checks whether a text from a page is an article, and whether it is in the model's language.

The phrases are of English pages, and a few of German and French ones.
"""

import re
from collections.abc import Set
from functools import lru_cache
from itertools import islice

from encoder.support.letters import fold
from encoder.support.named import VOCABULARY, model_directory
from worker.text import plural

MAX_READ_WORDS = 2_000
LONG_WORD_CHARS = 4  # shorter ones, such as "die" and "was", are words of several languages
MIN_LONG_WORDS = 8  # of fewer no share is taken
MIN_VOCABULARY = 10_000  # a smaller one does not know the words of its language
MIN_KNOWN_SHARE = 0.6  # docs/speed.md, "Languages", has what was measured, and how
LETTERS = re.compile(r"[^\W\d_]+")


@lru_cache(maxsize=4)
def known_words(model: str) -> Set[str]:
    """The whole words of a model's vocabulary: as the default one is of English, of English."""
    lines = (model_directory(model) / VOCABULARY).read_text("utf-8").splitlines()
    words = frozenset(line for line in lines if not line.startswith("##"))
    return words if len(words) >= MIN_VOCABULARY else frozenset()


def known_share(text: str, words: Set[str]) -> float | None:
    """The share of the different long words that are known; None if they are too few to tell."""
    found = (fold(match.group()) for match in islice(LETTERS.finditer(text), MAX_READ_WORDS))
    different = {word for word in found if len(word) >= LONG_WORD_CHARS}
    if len(different) < MIN_LONG_WORDS or not words:
        return None
    return len(different & words) / len(different)


def other_language(text: str, words: Set[str]) -> str | None:
    """A message if few of its words are known."""
    share = known_share(text, words)
    if share is None or share >= MIN_KNOWN_SHARE:
        return None
    return (
        f"another language: the model knows {share:.0%} of its long words, and of an article in "
        f"English {MIN_KNOWN_SHARE:.0%} or more"
    )


MIN_ARTICLE_WORDS = 40
# Longer texts are articles that only mention paywalls, scripts or errors.
MAX_PAYWALL_WORDS, MAX_ERROR_PAGE_WORDS = 250, 150
OPENING_CHARS = 200  # in which a page names an error
MAX_NOTICE_WORDS = 200  # of a line that asks for consent
MIN_PROSE_WORDS = 60  # a text with so many words in sentences is not a menu
MAX_MENU_LINE_WORDS = 8
MIN_MENU_LINES = 5
WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
# Letters of scripts without spaces between words; two of them count as a word.
UNSPACED_LETTER = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
SENTENCE_END = re.compile(r"[.!?…。！？।؟։](?=\W|$)|[。！？]")
PART_BOUNDARY = re.compile(r"\n|\s[|·•›»/]\s")
ADDRESSES_READER = re.compile(
    r"\b(we|our|us|you|your|accept|reject|agree|manage|allow|wir|unsere|können sie|akzeptieren|"
    r"nous|nos|vous|votre|accepter|refuser)\b",
    re.IGNORECASE,
)
COOKIE_PHRASE = re.compile(
    r"\b(we|site|website|partners|wir|nous)\b[^.\n]{0,60}\b(cookies|traceurs)\b|"
    r"\b(accept|reject|allow|manage|use of)\b[^.\n]{0,30}\bcookies\b|"
    r"\bcookies?\b[^.\n]{0,30}\b(policy|settings|preferences|notice|consent|banner|to ensure|"
    r"to improve|to give|to provide|on (this|our) (web)?site)\b|\bour (\d+ )?(partners|vendors)\b"
)
CONSENT_PHRASES = (
    "mit cookies", "consent to", "your consent", "your privacy", "privacy policy",
    "privacy settings", "privacy choices", "privacy preferences", "legitimate interest",
    "personal data", "personalised ads", "personalized ads", "personalised content",
    "personalized content", "personalised advertising", "personalized advertising", "gdpr",
    "accept all", "reject all", "allow all", "agree to all", "datenschutze", "einwilligung",
    "personenbezogene", "alle akzeptieren", "traceurs", "consentement", "tout accepter",
    "données personnelles",
)  # fmt: skip
PAYWALL = re.compile(
    r"\b(subscribe|sign (in|up)|log ?in|register) (now )?(to|and) (continue|keep|read|view|unlock)|"
    r"\bto (continue|keep) reading\b|\bthis (article|content|story) is (only |exclusively )?"
    r"(reserved )?for (\w+ )?(subscriber|member)s\b|"
    r"\breached your (free |monthly )?article limit\b|\bartikel ist (nur )?für abonnent|"
    r"\"isAccessibleForFree\"\s{0,9}:\s{0,9}\"?false",
    re.IGNORECASE,
)
SUBSCRIPTION_OFFER = re.compile(
    r"\b(already|not yet) a (subscriber|member)\b|\bfor subscribers( only)?\b|\bsubscribers only\b|"
    r"\bsubscriber[- ](only|exclusive)|\bcreate a free account\b|"
    r"\bstart your (free )?trial\b|\bfree articles? (left|remaining)\b|\bjetzt abonnieren\b",
    re.IGNORECASE,
)
SCRIPT_OR_CAPTCHA = re.compile(
    r"\b(enable|activate|turn on|requires?|needs?|without) java ?script\b|"
    r"\bjava ?script (is|to be|must be|has been) (disabled|required|enabled|turned off|not)\b|"
    r"\bchecking your browser\b|\bverify (that )?you are (a )?human\b|\bare you a robot\b|"
    r"\bcaptcha\b|\bunusual traffic from\b|\bbrowser (is )?(not supported|out of date)\b",
    re.IGNORECASE,
)
ERROR_PAGE = re.compile(
    r"\bpage (you|was|is|has|could|can|does|not|isn|doesn|no longer)\b.{0,60}?"
    r"\b(found|exist|moved|available|looking for)\b|\bpage not found\b|"
    r"\berror ?40[34]\b|\b40[34] (error|not found|forbidden)\b|"
    r"\b(can.t|cannot|couldn.t) find (the|that|this) page\b|"
    r"\bseite (wurde )?(leider )?nicht gefunden\b|^(access denied|something went wrong)\b|"
    r"\b50[0234] (internal|bad gateway|service|gateway)|^40[34]$",
    re.IGNORECASE | re.MULTILINE,
)


def count_words(text: str) -> int:
    """In scripts without spaces two letters count as a word."""
    letters = len(UNSPACED_LETTER.findall(text))
    return letters // 2 + len(WORD.findall(UNSPACED_LETTER.sub(" ", text) if letters else text))


def remove_notices(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not _asks_consent(line)).strip()


def rejection_reason(title: str, text: str, rest_of_page: str = "") -> str | None:
    """What the text looks like if it is not an article, else None.

    `rest_of_page` may hold the text of a paywall, which is not in the extracted text.
    """
    count = count_words(text)
    full_text = f"{title}\n{text}"
    opening = full_text[: len(title) + OPENING_CHARS]
    if count < MAX_ERROR_PAGE_WORDS and SCRIPT_OR_CAPTCHA.search(opening):
        return "a page that wants JavaScript or a human"
    if count < MAX_ERROR_PAGE_WORDS and ERROR_PAGE.search(opening):
        return "an error page"
    if 2 * count_words(remove_notices(text)) < count:
        return "a cookie or consent notice"
    has_paywall = count < MAX_PAYWALL_WORDS and PAYWALL.search(f"{full_text}\n{rest_of_page}")
    if has_paywall or (count < MAX_ERROR_PAGE_WORDS and SUBSCRIPTION_OFFER.search(full_text)):
        return "the stub of a paywall"
    if _is_menu(text, count):
        return "a menu or a list of headlines"
    return None


def too_few_words(text: str) -> str | None:
    """A message if the text has fewer words than an article."""
    count = count_words(text)
    if count >= MIN_ARTICLE_WORDS:
        return None
    return f"{plural(count, 'word')}, and an article has {MIN_ARTICLE_WORDS}"


def _asks_consent(line: str) -> bool:
    """Whether a line asks the reader for consent, and does not only quote such words."""
    low = line.lower()
    phrases = {match[0] for match in COOKIE_PHRASE.finditer(low)}
    phrases |= {phrase for phrase in CONSENT_PHRASES if phrase in low}
    if not phrases or count_words(line) > MAX_NOTICE_WORDS:
        return False
    if len(phrases) == 1 and not any("cookie" in phrase for phrase in phrases):
        return count_words(line) <= MAX_MENU_LINE_WORDS
    return bool(ADDRESSES_READER.search(line))


def _is_menu(text: str, count: int) -> bool:
    """Whether most words are in short lines without a sentence, or nearly all in such lines."""
    parts = [(count_words(part), part) for part in PART_BOUNDARY.split(text)]
    counts = [n for n, part in parts if n and not SENTENCE_END.search(part)]
    if count - sum(counts) >= MIN_PROSE_WORDS:
        return False
    short = [n for n in counts if n <= MAX_MENU_LINE_WORDS]
    if len(short) >= MIN_MENU_LINES and 2 * sum(short) > count:
        return True
    is_unspaced = UNSPACED_LETTER.search(text)
    return count >= MIN_ARTICLE_WORDS and 4 * sum(counts) > 3 * count and not is_unspaced
