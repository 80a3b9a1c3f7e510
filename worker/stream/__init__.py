"""The way of a batch: read, put into the ledger, matched, delivered, committed.

Posts arrive in `ingest`, go to `worker.match` and leave by `delivery`; seeds arrive in `control`
and go to `worker.seeds`.
"""
