"""Files: posts and texts are read here, whoever asks, and matches are written whole or not at all.

The commands and, later, the desk open files through this room; what was read goes to
`worker.match` or to a topic.
"""
