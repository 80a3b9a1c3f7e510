"""A background of one's own: which posts are drawn for it, and the file that it is.

Automatic thresholds are found on it; `worker.match` hands it to `worker.seeds.embedder`.
"""
