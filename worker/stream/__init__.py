"""The way of a batch: read, put into the ledger, matched, delivered, committed.

Posts come in by `ingest`, wait in the `ledger`, go through `flow` to `worker.match` and leave by
`worker.kafka.delivery`; `offsets` commits them. Seeds come in by `control`, for `worker.seeds`.
"""
