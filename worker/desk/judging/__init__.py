"""Judging in the browser: queues that are frozen while somebody is asked, and labels on their way.

The page names a post and a verdict and no more: how a post was drawn, and with which probability,
is known here alone. A question is answered once, however many tabs show it.
"""
