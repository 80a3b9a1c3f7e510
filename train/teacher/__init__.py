"""MiniLM as the teacher: vectors of posts, of articles by their chunks, and of single tokens.

`minilm` makes them and `store` keeps them on disk, by the text; `model.start` and `loop.datasets`
take them from there.
"""
