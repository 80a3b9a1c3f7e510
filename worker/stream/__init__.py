"""The life of a batch: read, put into the ledger, matched, delivered, committed.

`ingest` reads posts into the `ledger`. `flow` matches them with `worker.match` and delivers the
records with `worker.kafka.delivery`. `offsets` commits. `control` reads the seeds.
"""
