"""A seed article out of a page of the web: fetched and extracted."""

from worker.actions.seeds.fetch import Bounds, fetch
from worker.actions.seeds.files import SeedDraft, draft_of
from worker.actions.seeds.naming import seed_id
from worker.files.articles.extract import article_of


def draft_of_url(url: str, bounds: Bounds) -> SeedDraft:
    """The article behind an address, as a seed that is not published yet."""
    page = fetch(url, bounds)
    article = article_of(page)
    return draft_of(article, seed_id(article.title, page.url), url)
