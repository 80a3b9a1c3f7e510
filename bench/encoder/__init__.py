"""`newsift bench encoder`: posts a second of every path, one post alone, the start, the errors.

`rows` names what is measured, on the texts and models of one `workload`; `published` and `peers`
are what the encoder is compared with; `run` ties it together, `tables` shows it.
"""
