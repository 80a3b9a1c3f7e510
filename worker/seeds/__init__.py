"""Seed articles: a record of the control topic, the set that a batch is matched with, its index.

Records come from `worker.stream.control`; a finished set goes to `worker.match`.
"""
