"""A seed article out of a page of the web: fetched and extracted."""

from worker.actions.seeds.addresses import OwnNetwork
from worker.actions.seeds.fetch import Bounds, fetch
from worker.actions.seeds.files import SeedDraft, draft_of
from worker.actions.seeds.naming import seed_id
from worker.files.articles.extract import article_of

OPEN = Bounds(besides=", or give --intranet if it is your own network")


def draft_of_url(url: str, intranet: bool = False) -> SeedDraft:
    """The article behind an address, as a seed that is not published yet."""
    page = fetch(url, Bounds(allow=OwnNetwork()) if intranet else OPEN)
    article = article_of(page)
    return draft_of(article, seed_id(article.title, page.url), url)
