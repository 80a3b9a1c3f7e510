"""Pages as browsers save them, written for these tests after the layouts of real sites."""

TITLE = "Fire on the ferry Astrid Vane leaves nine missing"
STORY = """\
A fire that broke out on the car deck of the ferry Astrid Vane early on Tuesday forced 412 \
passengers and crew into lifeboats in the Sound of Tarrow, the coastguard said.
Nine people were still missing at noon. Helicopters and fishing boats from Port Maren were \
searching the water west of the island of Skerry, where the current is strong.
“We heard a bang, and then the lights went out,” said Ida Holm, a teacher who was on her way to \
a conference. She spent two hours in a boat with forty others.
The owner, Tarrow Lines, said that the ship had been inspected in May and that no lorry on board \
was carrying dangerous goods.""".splitlines()
NOTICE = (
    "We value your privacy. We and our 842 partners store and access information on a device, "
    "such as cookies, and process personal data, such as unique identifiers, for personalised ads "
    "and content. You may accept or manage your choices at any time."
)
SECTIONS = [
    "Home", "News", "Sport", "Weather", "Business", "Culture", "Travel", "Local", "Politics",
    "Opinion", "Podcasts", "Video", "Newsletters", "Contact", "About", "Jobs", "Imprint", "Help",
    "Archive", "Apps",
]  # fmt: skip
HEADLINES = [
    "Council votes on the new harbour wall after months of dispute",
    "Why the herring came back to the northern bays this spring",
    "Ten walks along the coast that are best before the crowds arrive",
    "Maren United lose again as the coach blames the wind",
    "School buses to run later from the first week of March",
    "How to read the tide tables without falling asleep over them",
]


def page(body: str, title: str = TITLE, head: str = "") -> str:
    top = f"<!doctype html>\n<html><head>{head}<title>{title}</title></head>"
    return f"{top}<body>{body}</body></html>"


def tagged(tag: str, parts: list[str]) -> str:
    return "".join(f"<{tag}>{part}</{tag}>" for part in parts)


BANNER = f'<div id="cmp" role="dialog"><p>{NOTICE}</p><button>Accept all</button></div>'
MENU = f"<nav><ul>{tagged('li', [f'<a href=/{w}>{w}</a>' for w in SECTIONS])}</ul></nav>"
FOOTER = "<footer><p>© Tarrow Courier. All rights reserved.</p></footer>"

# The same story in the layouts in which it is found.
STORIES = {
    "article": page(f"{MENU}<article><h1>{TITLE}</h1>{tagged('p', STORY)}</article>{FOOTER}"),
    "banner first": page(f"{BANNER}{MENU}<main><h1>{TITLE}</h1>{tagged('p', STORY)}</main>"),
    "plain divs": page(f"<div>{NOTICE}</div>{tagged('div', [*SECTIONS, TITLE, *STORY])}"),
    "divs and a p": page(f'<div class="x1"><p>{NOTICE}</p></div><div>{tagged("div", STORY)}</div>'),
    "line breaks": page(f"<p>{NOTICE}</p><div>{'<br><br>'.join(STORY)}</div>"),
    "tables": page(
        f"<p>{NOTICE}</p><table><tr><td><a href=/>Home</a></td><td>"
        f"{'<br>'.join(f'<font size=2>{part}</font>' for part in STORY)}</td></tr></table>"
    ),
}  # fmt: skip

# What is saved, or sent, in the place of a story; and what the refusal says that it looks like.
NO_STORIES = {
    "cookie or consent notice": [
        page(BANNER),
        page(
            "<h2>Mit Werbung weiterlesen?</h2><p>Wir und unsere 154 Partner verarbeiten Ihre Daten "
            "mit Cookies, um Inhalte und Anzeigen zu messen. Mit Ihrer Einwilligung können wir und "
            "unsere Partner personenbezogene Daten wie Ihre IP-Adresse verarbeiten. Sie können "
            "Ihre Auswahl jederzeit in der Datenschutzerklärung widerrufen.</p>"
            "<p>Alle akzeptieren</p>",
            "Zustimmung",
        ),
    ],
    "menu or a list of headlines": [
        page(MENU * 3, "Tarrow Courier"),
        page(tagged("div", HEADLINES), "News from Port Maren"),
    ],
    "stub of a paywall": [
        page(
            f"{MENU}<article><h1>{TITLE}</h1>{tagged('p', STORY[:2])}</article>",
            head='<script type="application/ld+json">{"@type": "NewsArticle", '
            '"isAccessibleForFree": false}</script>',
        ),
        page(
            f"<article><h1>{TITLE}</h1><p>{STORY[0]}</p><p>Dieser Artikel ist nur für "
            "Abonnenten. Jetzt abonnieren und sofort weiterlesen, den ersten Monat kostenlos, "
            "danach für neun Euro im Monat, jederzeit kündbar.</p></article>"
        ),
    ],
    "wants JavaScript or a human": [
        page("<noscript>You need to enable JavaScript to run this app.</noscript><div></div>"
             "<p>Please enable JavaScript and reload the page to go on.</p>", "Courier"),
        page("<h1>Just a moment...</h1><p>Checking your browser before accessing courier.test. "
             "This takes a few seconds.</p>", "Just a moment..."),
    ],
    "error page": [
        page("<h1>404</h1><p>Sorry, the page you are looking for could not be found. It may have "
             "been moved, or the address may have been mistyped.</p><p>Try the search, or go back "
             "to the front page of the Courier, where all stories of today are.</p>", "Oh no"),
    ],
}  # fmt: skip
