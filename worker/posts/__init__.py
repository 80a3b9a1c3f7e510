"""From the bytes of a message to a post, or to the reason why it is none: one module for each form.

Bytes come from `worker.match.pipeline` or a file; a post's text goes on to `encoder.text`.
"""
