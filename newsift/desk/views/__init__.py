"""The endpoints of each page."""

from newsift.desk.views import events, export, feeds, health, judge, learning, scores, seeds

ENDPOINTS = tuple(
    endpoint
    for page in (events, judge, learning, scores, export, seeds, feeds, health)
    for endpoint in page.ENDPOINTS
)
