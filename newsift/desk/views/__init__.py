"""The endpoints of each page."""

from newsift.desk.api import Endpoint
from newsift.desk.views import counts, events, export, judge, learning, scores, seeds

PAGES = (events, judge, learning, scores, counts, export, seeds)
ENDPOINTS = [each for page in PAGES for each in vars(page).values() if isinstance(each, Endpoint)]
