"""The commands of `newsift background`: posts of a topic or of files to a file of embeddings.

What automatic thresholds are found on is drawn and read in `worker.background`.
"""
