"""What each page of the desk shows and does: questions in, answers out, and nothing of HTTP."""

from worker.desk.views import (
    agreement,
    dead_letters,
    drafts,
    events,
    export,
    feeds,
    health,
    judging,
    learning,
    matches,
    promising,
    scores,
    seeds,
    session,
)

ENDPOINTS = (
    *session.ENDPOINTS,
    *agreement.ENDPOINTS,
    *dead_letters.ENDPOINTS,
    *drafts.ENDPOINTS,
    *events.ENDPOINTS,
    *export.ENDPOINTS,
    *feeds.ENDPOINTS,
    *health.ENDPOINTS,
    *judging.ENDPOINTS,
    *learning.ENDPOINTS,
    *matches.ENDPOINTS,
    *promising.ENDPOINTS,
    *scores.ENDPOINTS,
    *seeds.ENDPOINTS,
)
