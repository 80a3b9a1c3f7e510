"""What each page of the desk shows and does: questions in, answers out, and nothing of HTTP."""

from worker.desk.views import (
    agreement,
    dead_letters,
    export,
    health,
    judging,
    learning,
    promising,
    scores,
    session,
)

ENDPOINTS = (
    *session.ENDPOINTS,
    *agreement.ENDPOINTS,
    *dead_letters.ENDPOINTS,
    *export.ENDPOINTS,
    *health.ENDPOINTS,
    *judging.ENDPOINTS,
    *learning.ENDPOINTS,
    *promising.ENDPOINTS,
    *scores.ENDPOINTS,
)
