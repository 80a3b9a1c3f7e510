"""Whether a text from a page is an article, and whether it is English.

Phrases are those of English pages, and a few of German and French ones.
"""

import re
from itertools import islice

MIN_ENGLISH_WORDS = 20  # words that tell
READ = 2_000  # words
MIN_ENGLISH_SHARE = (
    0.2  # of an English text nearly half of the words are these, of others a few by chance
)
LETTERS = re.compile(r"[^\W\d_]+")
COMMON = """
    the of to and a in that is was he for it with as his on be at by had not are but from or have
    an they which one you were her all she there would their we him been has when who will more no
    if out so said what up its about into than them can only other new some could time these two
    may then do first any my now such like our over man me even most made after also did many
    before must through years where much your way well down should because each just those people
    too good against while under being still i
"""
COMMON_WORDS = frozenset(COMMON.split())


def looks_foreign(text: str) -> bool:
    """Whether a text of enough words has few of the common words of English."""
    words = [word.group().lower() for word in islice(LETTERS.finditer(text), READ)]
    return len(words) >= MIN_ENGLISH_WORDS and sum(
        word in COMMON_WORDS for word in words
    ) < MIN_ENGLISH_SHARE * len(words)


MIN_WORDS = 40  # words of an article
STUB, SHORT_PAGE = 250, 150  # words: longer ones are articles that mention such things
OPENING = 200  # characters, in which a page says that it is no article
NOTICE = 200  # words of a line, at most, that asks for consent
PROSE = 60  # words in sentences, from which on a list belongs to an article
MENU_LINE = 8  # words, at most, and no sentence
MENU_LINES = 5
WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
# Scripts that write no spaces between words: two letters of them count as a word.
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
END = re.compile(r"[.!?…。！？।؟։](?=\W|$)|[。！？]")
PARTS = re.compile(r"\n|\s[|·•›»/]\s")
TO_THE_READER = re.compile(
    r"\b(we|our|us|you|your|accept|reject|agree|manage|allow|wir|unsere|können sie|akzeptieren|"
    r"nous|nos|vous|votre|accepter|refuser)\b",
    re.IGNORECASE,
)
OF_COOKIES = re.compile(
    r"\b(we|site|website|partners|wir|nous)\b[^.\n]{0,60}\b(cookies|traceurs)\b|"
    r"\b(accept|reject|allow|manage|use of)\b[^.\n]{0,30}\bcookies\b|"
    r"\bcookies?\b[^.\n]{0,30}\b(policy|settings|preferences|notice|consent|banner|to ensure|"
    r"to improve|to give|to provide|on (this|our) (web)?site)\b|\bour (\d+ )?(partners|vendors)\b"
)
OF_CONSENT = (
    *("mit cookies", "consent to", "your consent", "your privacy", "privacy policy"),
    *("privacy settings", "privacy choices", "privacy preferences", "legitimate interest"),
    *("personal data", "personalised ads", "personalized ads", "personalised content"),
    *("personalized content", "personalised advertising", "personalized advertising", "gdpr"),
    *("accept all", "reject all", "allow all", "agree to all", "datenschutze", "einwilligung"),
    *("personenbezogene", "alle akzeptieren", "traceurs", "consentement", "tout accepter"),
    "données personnelles",
)
OF_A_WALL = re.compile(
    r"\b(subscribe|sign (in|up)|log ?in|register) (now )?(to|and) (continue|keep|read|view|unlock)|"
    r"\bto (continue|keep) reading\b|\bthis (article|content|story) is (only |exclusively )?"
    r"(reserved )?for (\w+ )?(subscriber|member)s\b|"
    r"\breached your (free |monthly )?article limit\b|\bartikel ist (nur )?für abonnent|"
    r"\"isAccessibleForFree\"\s{0,9}:\s{0,9}\"?false",
    re.IGNORECASE,
)
OF_A_STUB = re.compile(
    r"\b(already|not yet) a (subscriber|member)\b|\bfor subscribers( only)?\b|\bsubscribers only\b|"
    r"\bsubscriber[- ](only|exclusive)|\bcreate a free account\b|"
    r"\bstart your (free )?trial\b|\bfree articles? (left|remaining)\b|\bjetzt abonnieren\b",
    re.IGNORECASE,
)
OF_A_SCRIPT = re.compile(
    r"\b(enable|activate|turn on|requires?|needs?|without) java ?script\b|"
    r"\bjava ?script (is|to be|must be|has been) (disabled|required|enabled|turned off|not)\b|"
    r"\bchecking your browser\b|\bverify (that )?you are (a )?human\b|\bare you a robot\b|"
    r"\bcaptcha\b|\bunusual traffic from\b|\bbrowser (is )?(not supported|out of date)\b",
    re.IGNORECASE,
)
OF_AN_ERROR = re.compile(
    r"\bpage (you|was|is|has|could|can|does|not|isn|doesn|no longer)\b.{0,60}?"
    r"\b(found|exist|moved|available|looking for)\b|\bpage not found\b|"
    r"\berror ?40[34]\b|\b40[34] (error|not found|forbidden)\b|"
    r"\b(can.t|cannot|couldn.t) find (the|that|this) page\b|"
    r"\bseite (wurde )?(leider )?nicht gefunden\b|^(access denied|something went wrong)\b|"
    r"\b50[0234] (internal|bad gateway|service|gateway)|^40[34]$",
    re.IGNORECASE | re.MULTILINE,
)


def words_in(text: str) -> int:
    """In scripts without spaces two letters count as a word."""
    letters = len(UNSPACED.findall(text))
    return letters // 2 + len(WORD.findall(UNSPACED.sub(" ", text) if letters else text))


def without_notices(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not _asks_consent(line)).strip()


def rejection_reason(title: str, text: str, beside: str = "") -> str | None:
    """What the text looks like if it is no article, else None.

    `beside` is the rest of the page: it shows a paywall that the extractor has cut off.
    """
    count = words_in(text)
    whole = f"{title}\n{text}"
    opening = whole[: len(title) + OPENING]
    if count < SHORT_PAGE and OF_A_SCRIPT.search(opening):
        return "a page that wants JavaScript or a human"
    if count < SHORT_PAGE and OF_AN_ERROR.search(opening):
        return "an error page"
    if 2 * words_in(without_notices(text)) < count:
        return "a cookie or consent notice"
    has_wall = count < STUB and OF_A_WALL.search(f"{whole}\n{beside}")
    if has_wall or (count < SHORT_PAGE and OF_A_STUB.search(whole)):
        return "the stub of a paywall"
    if _is_menu(text, count):
        return "a menu or a list of headlines"
    return None


def too_few_words(text: str) -> str | None:
    """A message if the text has fewer words than an article."""
    count = words_in(text)
    return f"{count} words, and an article has {MIN_WORDS}" if count < MIN_WORDS else None


def _asks_consent(line: str) -> bool:
    """Whether a line asks the reader for consent, and does not only quote such words."""
    low = line.lower()
    terms = {match[0] for match in OF_COOKIES.finditer(low)}
    terms |= {phrase for phrase in OF_CONSENT if phrase in low}
    if not terms or words_in(line) > NOTICE:
        return False
    if len(terms) == 1 and not any("cookie" in term for term in terms):
        return words_in(line) <= MENU_LINE
    return bool(TO_THE_READER.search(line))


def _is_menu(text: str, count: int) -> bool:
    """Whether most words are in short lines that are no sentences, or nearly all in none."""
    parts = [(words_in(part), part) for part in PARTS.split(text)]
    open_ended = [n for n, part in parts if n and not END.search(part)]
    if count - sum(open_ended) >= PROSE:
        return False
    short = [n for n in open_ended if n <= MENU_LINE]
    if len(short) >= MENU_LINES and 2 * sum(short) > count:
        return True
    return count >= MIN_WORDS and 4 * sum(open_ended) > 3 * count and not UNSPACED.search(text)
