"""What a text is made of: cleaned, split into words, each word into pieces with ids.

`clean`, `split` and `vocabulary` say what is meant; the `fast_` modules are the same, compiled,
equal to the bit. A text goes on as ids to `encoder.backends`, and as words to
`encoder.score.lexical`.
"""
