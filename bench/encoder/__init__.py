"""`newsift bench encoder`: posts a second of every path, one post alone, the start, the errors.

`rows` names what is measured, on the texts and models of one `workload`; `published` is what the
encoder is compared with; `run` ties it together and makes the tables.
"""
