"""What each page of the desk shows and does: questions in, answers out, and nothing of HTTP."""

from worker.desk.views import agreement, export, judging, learning, promising, scores, session

ENDPOINTS = (
    *session.ENDPOINTS,
    *judging.ENDPOINTS,
    *promising.ENDPOINTS,
    *agreement.ENDPOINTS,
    *export.ENDPOINTS,
    *scores.ENDPOINTS,
    *learning.ENDPOINTS,
)
