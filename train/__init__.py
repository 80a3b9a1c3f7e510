"""From pairs of posts and articles to a model directory.

Files are read in `data`, given the vectors of MiniLM by `teacher`, and become a first model in
`model`, which `loop` trains; `run` ties these together, `protocol` judges, `figures` draws.
`languages` gathers the texts of the multilingual model.
"""
