"""What each page of the desk shows and does: questions in, answers out, and nothing of HTTP."""

from worker.desk.views import export, scores, session

ENDPOINTS = (*session.ENDPOINTS, *export.ENDPOINTS, *scores.ENDPOINTS)
