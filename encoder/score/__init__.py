"""What a score is made of, beside the dense product: sparse rows of words, and exact sums.

Rows come from `encoder.text`; `encoder.Embeddings` puts both halves together.
"""
