"""The endpoints of each page."""

from dataclasses import replace

from newsift.desk.api import Endpoint
from newsift.desk.views import counts, events, export, judge, learning, projects, scores, seeds

PAGES = (events, judge, learning, scores, counts, export, seeds)
ENDPOINTS = [each for page in PAGES for each in vars(page).values() if isinstance(each, Endpoint)]
PROJECT_ENDPOINTS = [
    replace(each, takes_projects=True)
    for each in vars(projects).values() if isinstance(each, Endpoint)
]  # fmt: skip
