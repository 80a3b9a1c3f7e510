"""Labelled data from files, and what of it trains, tunes and judges.

Rows become pairs, stories and posts in `readers`, fall into splits by hash alone in `splits`, and
what may train leaves as `corpus` for `loop.datasets`; `word_vectors` reads GloVe.
"""
